"""The schematic of P1's Fig. 2A: what delays which clock, and the innovation window between them."""

from __future__ import annotations

from typing import Any

from twoclocks.core.theme import light


def draw_schematic(axis: Any) -> None:
    """A time axis with both clocks; arrows say in which direction each of them moves, and by what."""
    axis.set(xlim=(0, 10), ylim=(1, 6))
    axis.set_axis_off()
    arrow = {"arrowstyle": "->", "color": light("ink"), "linewidth": 1.2}
    axis.annotate("", xy=(9.9, 2.4), xytext=(0.1, 2.4), arrowprops=arrow)
    axis.text(9.9, 1.55, "training steps", ha="right", va="top", fontsize=8, color=light("muted"))
    axis.axvspan(3.0, 7.0, ymin=0.28, ymax=0.52, color=light("window"), linewidth=0)
    axis.text(5.0, 3.0, "innovation window\nvalid and new", ha="center", va="center", fontsize=8, color=light("new"))
    for at, colour, name in ((3.0, "rule", "τ_rule"), (7.0, "memory", "τ_mem")):
        axis.plot([at, at], [2.15, 3.7], color=light(colour), linewidth=2)
        axis.text(at, 1.95, name, ha="center", va="top", fontsize=9.5, color=light(colour))
    delays = [
        (3.0, 4.9, 4.1, "rule", "larger group size G"),
        (7.0, 9.2, 4.1, "memory", "more samples N (∝ N)"),
        (3.0, 1.4, 5.2, "rule", "larger network"),
        (7.0, 5.4, 5.2, "memory", "larger network"),
    ]
    for begin, end, height, colour, words in delays:
        style = {"arrowstyle": "->", "color": light(colour), "linewidth": 1.3}
        axis.annotate("", xy=(end, height), xytext=(begin, height), arrowprops=style)
        axis.text((begin + end) / 2, height + 0.12, words, ha="center", va="bottom", fontsize=8, color=light(colour))
    axis.text(1.5, 3.0, "breaks the rule", ha="center", va="center", fontsize=8, color=light("broken"))
    axis.text(8.5, 3.0, "copies", ha="center", va="center", fontsize=8, color=light("memory"))
