"""Figures of several runs as PNG files, for docs and papers.

python tools/draw_together.py phases phases.png DIR...
python tools/draw_together.py batches batches.png "TITLE=DIR" "TITLE=DIR"...    each DIR a folder of runs, or a pattern
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twoclocks.analysis.batches import batch_law
from twoclocks.analysis.phases import phase_diagram
from twoclocks.core.theme import picture
from twoclocks.report.batches import batch_info, draw_batches
from twoclocks.report.phases import draw_phases
from twoclocks.runs import Run, load_run
from twoclocks.store.files import write_atomic


def runs_at(patterns: Sequence[str]) -> list[Run]:
    return [load_run(path) for pattern in patterns for path in sorted(Path(pattern).parent.glob(Path(pattern).name))]


def draw_figure(kind: str, words: Sequence[str]) -> Any:
    """The phase diagram of runs, or the laws over batch sizes of several folders of runs."""
    if kind == "phases":
        return draw_phases(phase_diagram(runs_at(words)))
    named = [word.rpartition("=") for word in words]
    return draw_batches([batch_info(batch_law(runs_at([pattern])), title) for title, _, pattern in named])


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw a figure of several runs.")
    parser.add_argument("kind", choices=("phases", "batches"), help="which figure")
    parser.add_argument("out", type=Path, help="the PNG file to write")
    parser.add_argument("runs", nargs="+", help="phases: run directories; batches: TITLE=DIR, a folder of runs each")
    asked = parser.parse_args()
    write_atomic(asked.out, picture(draw_figure(asked.kind, asked.runs), dpi=130))
    print(asked.out)


if __name__ == "__main__":
    main()
