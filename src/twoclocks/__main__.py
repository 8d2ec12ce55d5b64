"""``python -m twoclocks`` is the command ``twoclocks``."""

from twoclocks.cli import main

raise SystemExit(main())
