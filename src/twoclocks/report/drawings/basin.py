"""Drawing of ``basin``: profiles on three kinds of lines, and the half-width of each over training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twoclocks.core.theme import light
from twoclocks.dissection.views.basin import BasinInfo
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing, Figure
from twoclocks.report.drawings.parts import (
    ORACLES,
    SMALL,
    figure_of,
    line_with_band,
    mark_clocks,
    shades,
    shown_steps,
    step_axis,
)
from twoclocks.report.legends import legend_below

LABELS = {"match": "fraction returned exactly", "hamming": "entries that differ", "l2": "distance (L2)"}
IMAGE_LABELS = {"match": "returned as a copy", "rms": "distance (RMS)"}


@DRAWINGS.register("basin")
class BasinDrawing(Drawing):
    title = "Basin width of training samples"
    order = 70

    def draw(self, info: BasinInfo) -> Figure:
        chosen = shown_steps(info.steps, info.clocks)
        labels = IMAGE_LABELS if info.images else LABELS
        figure = figure_of(9.6, 2.1 * len(labels) + 2.1)
        axes = figure.subplots(len(labels) + 1, len(info.lines), height_ratios=[*[1] * len(labels), 1.3])
        colours = shades(len(chosen))
        for column, line in enumerate(info.lines):
            for row, (metric, label) in enumerate(labels.items()):
                draw_profiles(axes[row, column], info, metric, column, chosen, colours)
                if not column:
                    axes[row, column].set_ylabel(label, fontsize=8.5)
            axes[0, column].set_title(f"towards a {line} neighbour", fontsize=9)
            axes[-2, column].set_xlabel("position on the line (1: the neighbour)", fontsize=8.5)
            draw_widths(axes[-1, column], info, info.level, column)
        axes[-1, 0].set_ylabel("half-width of the basin", fontsize=8.5)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=6, **SMALL)
        legend_below(axes[-1, 0], ncols=2)
        return figure


def draw_profiles(axis: Any, info: BasinInfo, metric: str, line: int, chosen: Sequence[int], colours: Any) -> None:
    """One metric on one kind of line at the chosen checkpoints, at the critical σ."""
    for colour, at in zip(colours, chosen, strict=True):
        mean, low, high = (one[metric][at, info.level, line] for one in (info.mean, info.low, info.high))
        line_with_band(axis, info.t, mean, low, high, colour, label=f"step {info.steps[at]:,}", linewidth=1.4)
    axis.axvline(0.5, color=light("muted"), linewidth=0.8, linestyle=":")


def draw_widths(axis: Any, info: BasinInfo, level: int, line: int) -> None:
    """Half-widths over training, with those of the ideal denoisers."""
    width, low, high = (one[:, level, line] for one in (info.width, info.width_low, info.width_high))
    line_with_band(axis, info.steps, width, low, high, light("ink"), label="learned")
    for k, name in enumerate(info.oracles):
        line_style = {
            "linestyle": (0, (4, 2)),
            "linewidth": 1.1,
            "label": f"ideal: {'training set' if info.images else name}",
        }
        axis.axhline(info.ideal[k, level, line], color=light(ORACLES[name]), **line_style)
    step_axis(axis, info.steps)
    mark_clocks(axis, info.clocks, named=False)
    axis.set_ylim(0, info.t[-1] * 1.05)
