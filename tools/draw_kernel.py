"""The kernel laboratory's figure from the result of its recipe.

python tools/draw_kernel.py results/p2-kernel.json docs/kernel.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from twoclocks.core.theme import picture
from twoclocks.papers.early_stopping.kernel_figure import draw_kernel, kernel_data
from twoclocks.store.files import write_atomic


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the figure of the kernel laboratory.")
    parser.add_argument("result", type=Path, help="the recipe's result, a JSON file")
    parser.add_argument("out", type=Path, help="the PNG file to write")
    asked = parser.parse_args()
    figure = draw_kernel(kernel_data(json.loads(asked.result.read_text(encoding="utf-8"))))
    write_atomic(asked.out, picture(figure, dpi=130))
    print(asked.out)


if __name__ == "__main__":
    main()
