"""The short form of the campaign of hostile command lines and YAML files."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from hostile_input import hostile_inputs

MEGABYTE = 1024 if sys.platform == "linux" else 1 << 20  # units of ru_maxrss


def test_hostile_input_is_answered_by_one_line(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    tally = hostile_inputs(tmp_path, count=300, seed=0)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert tally.good, tally
    assert after.ru_maxrss - before.ru_maxrss < 400 * MEGABYTE
    assert after.ru_utime - before.ru_utime < 60  # about 4 s on an idle machine
