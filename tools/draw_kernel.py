"""The kernel laboratory's figure from the result of its recipe.

python tools/draw_kernel.py results/p2-kernel.json docs/kernel.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

from twoclocks.papers.early_stopping.kernel_figure import draw_kernel, kernel_data
from twoclocks.report.theme import style


def main() -> None:
    result, out = map(Path, sys.argv[1:])
    with matplotlib.rc_context(style()):
        draw_kernel(kernel_data(json.loads(result.read_text(encoding="utf-8")))).savefig(out, dpi=130)
    print(out)


if __name__ == "__main__":
    main()
