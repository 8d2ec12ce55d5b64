"""The figures of a dissected run as PNG files, for docs and papers.

python tools/draw_why.py RUN_DIRECTORY docs raster spectrum field basin
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

from twoclocks.core.theme import picture, style
from twoclocks.dissection.execution import known_dissection
from twoclocks.report.drawings import DRAWINGS
from twoclocks.runs import load_run
from twoclocks.store.files import write_atomic


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the figures of a dissected run.")
    parser.add_argument("run", help="a run directory")
    parser.add_argument("out", type=Path, help="the folder for the PNG files")
    parser.add_argument("views", nargs="*", help="names of views; without them all that were measured")
    asked = parser.parse_args()
    found = known_dissection(load_run(asked.run))
    if found is None:
        raise SystemExit(f"{asked.run}: was not dissected; run twoclocks dissect {asked.run}")
    for name in asked.views or found.infos:
        path = asked.out / f"why-{name}.png"
        with matplotlib.rc_context(style()):
            figure = DRAWINGS.get(name)().draw(found.infos[name])
        write_atomic(path, picture(figure, dpi=100))
        print(path)


if __name__ == "__main__":
    main()
