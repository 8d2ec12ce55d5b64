"""Drawing of ``positions``: loss by position over training, and when each position is learned or splits."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoclocks.core.theme import light
from twoclocks.dissection.views.positions import PositionsInfo
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing, Figure
from twoclocks.report.drawings.parts import (
    SMALL,
    SPLIT_STYLES,
    colour_bar,
    figure_of,
    heat,
    mark_clocks,
    plain_log,
    shown_steps,
)


@DRAWINGS.register("positions")
class PositionsDrawing(Drawing):
    title = "Loss by position"
    order = 90

    def draw(self, info: PositionsInfo) -> Figure:
        figure = figure_of(9.6, 6.6)
        rows = figure.add_gridspec(2, 1)
        first = rows[0].subgridspec(1, 3).subplots()
        places = np.arange(1, info.loss.shape[2] + 1, dtype=float)
        reach = float(np.abs(info.gap).max()) or 1.0
        panels: list[tuple[str, Any, str, float, float]] = [
            ("loss on valid, unseen samples", info.of("held_out"), "viridis", 0.0, 1.3 * info.uniform),
            ("held-out minus training loss", info.gap, "RdBu_r", -reach, reach),
        ]
        for axis, (title, values, cmap, low, high) in zip(first, panels, strict=False):
            drawn = heat(axis, info.steps, places, values, log_y=False, cmap=cmap, vmin=low, vmax=high)
            axis.set_title(title, fontsize=9)
            axis.set_ylabel("position")
            mark_determined(axis, info)
            colour_bar(figure, drawn, axis, "nats")
        draw_onsets(first[2], info, places)
        chosen = shown_steps(info.steps, info.clocks)
        second = rows[1].subgridspec(1, len(chosen)).subplots(sharey=True, squeeze=False)[0]
        for column, (axis, at) in enumerate(zip(second, chosen, strict=True)):
            for name, (label, colour) in SPLIT_STYLES.items():
                axis.plot(places, info.of(name)[at], color=light(colour), label=label, linewidth=1.3)
            for floor, colour, label in (
                (info.rule_floor, "rule", "floor of the rule"),
                (info.memory_floor, "memory", "floor of the training set"),
            ):
                axis.plot(places, floor, color=light(colour), linestyle=(0, (4, 2)), linewidth=1.0, label=label)
            axis.set_title(f"step {info.steps[at]:,}", fontsize=9)
            axis.set(xlabel="position", ylim=(-0.05, 2.5 * info.uniform))
            if not column:
                axis.set_ylabel("cross-entropy (nats)")
                axis.legend(loc="upper left", **SMALL)
        return figure


def draw_onsets(axis: Any, info: PositionsInfo, places: Any) -> None:
    """When each position is half learned, and when its losses split."""
    for onsets, colour, label in (
        (info.rule_onsets, "rule", "determined by the rule: half learned"),
        (info.memory_onsets, "memory", "losses split"),
    ):
        seen = [(one, place) for one, place in zip(onsets, places, strict=True) if one is not None and one.seen]
        if seen:
            ends, at = [one.upper for one, _ in seen], [place for _, place in seen]
            axis.plot(ends, at, "o", color=light(colour), label=label)
            for one, place in seen:
                axis.plot([max(one.lower, info.steps[0] * 0.7, 0.5), one.upper], [place] * 2, color=light(colour))
    plain_log(axis, "x")
    axis.set_xlim(max(info.steps[0] * 0.7, 0.5), info.steps[-1] * 1.1)
    axis.set_ylim(0, len(places) + 1)
    axis.set(xlabel="training step", ylabel="position")
    axis.set_title("onset by position", fontsize=9)
    mark_clocks(axis, info.clocks, named=False)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="lower left", **SMALL)


def mark_determined(axis: Any, info: PositionsInfo) -> None:
    """Mark the positions that the rule determines at the right edge."""
    marker_style = {"marker": "<", "color": light("rule"), "markersize": 4, "clip_on": False, "linestyle": "none"}
    axis.plot([1.0] * len(info.determined), info.determined + 1, transform=axis.get_yaxis_transform(), **marker_style)
