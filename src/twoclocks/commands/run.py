"""The command ``twoclocks run``: train and evaluate one model."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from twoclocks.commands.options import SETTINGS_HINT, Add, add_checkpoint_seconds


def add_command(add: Add) -> None:
    run = add("run", run_command, "train and evaluate one model", SETTINGS_HINT)
    run.add_argument(
        "preset",
        nargs="?",
        metavar="PRESET",
        help="a preset (see 'twoclocks list presets') or a YAML file (default: demo)",
    )
    run.add_argument(
        "--out", type=Path, metavar="DIR", help="run directory (default: runs/NAME); an unfinished run is continued"
    )
    run.add_argument(
        "--fork",
        action="store_true",
        help="if --out holds a run with other settings, copy it and continue the copy with these",
    )
    add_checkpoint_seconds(run)
    run.add_argument("--json", action="store_true", help="print the result as JSON")


def run_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_clocks, show_lines, watch
    from twoclocks.report.summary import summarise
    from twoclocks.runs import load_settings, run

    settings = load_settings(arguments.preset, arguments.overrides)
    out = arguments.out if arguments.out is not None else Path("runs") / settings.name
    with watch(settings) as observe:
        done = run(settings, out, observe, fork=arguments.fork, checkpoint_seconds=arguments.checkpoint_seconds)
    if arguments.json:
        print(json.dumps(summarise(done), indent=2))
    else:
        show_clocks([done])
        if "stopped_at" in done.status:
            show_lines(f"Stopped at step {done.status['stopped_at']:,}: {done.status['reason']}")
        show_lines(f"Run: {done.path}")
