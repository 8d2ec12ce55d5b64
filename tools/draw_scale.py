"""Draw docs/scale.png: time and memory against cells and evaluations, from results/scale.json.

python tools/draw_scale.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from twoclocks.core.theme import light, style

ROOT = Path(__file__).parents[1]
COLOURS = ("rule", "memory", "new", "broken", "muted")
LIMIT = 60.0  # seconds that each command may take on 10,000 cells


def draw(result: dict[str, Any]) -> Figure:
    """Two columns, cells and evaluations; seconds above, memory below."""
    parts = (("cells", "commands"), ("evaluations", "work"))
    figure = Figure(figsize=(9.0, 6.2), layout="constrained")
    axes = figure.subplots(2, 2, sharex="col")
    for column, (count, work) in enumerate(parts):
        rows = result[count]
        for name, colour in zip(rows[0][work], COLOURS, strict=False):
            for line, key in enumerate(("cpu_seconds", "megabytes")):
                values = [row[work][name][key] for row in rows]
                axes[line, column].plot(
                    [row[count] for row in rows], values, marker="o", markersize=4, color=light(colour), label=name
                )
        axes[0, column].set(xscale="log", yscale="log", title=f"{count} of one {'sweep' if not column else 'run'}")
        axes[1, column].set(xscale="log", xlabel=count, ylim=(0, None))
        axes[0, column].legend(fontsize=8)
        for axis in (axes[0, column].yaxis, axes[1, column].xaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,g}"))
            axis.set_minor_formatter(NullFormatter())
        axes[0, column].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # less than a decade has labels too
    axes[0, 0].axhline(LIMIT, color=light("muted"), linestyle=(0, (5, 4)), linewidth=1)
    axes[0, 0].set_ylabel("seconds of CPU time")
    axes[1, 0].set_ylabel("largest memory (MB)")
    return figure


def main() -> None:
    result = json.loads((ROOT / "results" / "scale.json").read_text(encoding="utf-8"))
    with matplotlib.rc_context(style()):
        draw(result).savefig(ROOT / "docs" / "scale.png", dpi=110)


if __name__ == "__main__":
    main()
