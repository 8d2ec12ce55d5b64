"""The kernel laboratory's figure from the result of its recipe.

python tools/draw_kernel.py results/p2-kernel.json docs/kernel.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

from twoclocks.core.theme import style
from twoclocks.papers.early_stopping.kernel_figure import draw_kernel, kernel_data


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the figure of the kernel laboratory.")
    parser.add_argument("result", type=Path, help="the recipe's result, a JSON file")
    parser.add_argument("out", type=Path, help="the PNG file to write")
    asked = parser.parse_args()
    with matplotlib.rc_context(style()):
        draw_kernel(kernel_data(json.loads(asked.result.read_text(encoding="utf-8")))).savefig(asked.out, dpi=130)
    print(asked.out)


if __name__ == "__main__":
    main()
