"""The figures of a dissected run as PNG files, for docs and papers.

python tools/draw_why.py RUN_DIRECTORY docs raster spectrum field basin
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

from twoclocks.dissection.execution import known_dissection
from twoclocks.report.drawings import DRAWINGS
from twoclocks.report.theme import style
from twoclocks.runs import load_run


def main() -> None:
    folder, out, *views = sys.argv[1:]
    found = known_dissection(load_run(folder))
    if found is None:
        raise SystemExit(f"{folder}: was not dissected; run twoclocks dissect {folder}")
    for name in views or found.infos:
        path = Path(out) / f"why-{name}.png"
        with matplotlib.rc_context(style()):
            DRAWINGS.get(name)().draw(found.infos[name]).savefig(path, dpi=100)
        print(path)


if __name__ == "__main__":
    main()
