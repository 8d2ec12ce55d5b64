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
from twoclocks.report.legends import legend_below

SMALLEST = 1e-4  # nats, where the logarithmic axis of determined positions begins


@DRAWINGS.register("positions")
class PositionsDrawing(Drawing):
    title = "Loss by position"
    order = 90

    def draw(self, info: PositionsInfo) -> Figure:
        kinds = kinds_of(info)
        figure = figure_of(9.6, 7.2 + 2.5 * len(kinds))
        above, middle, below = figure.subfigures(3, 1, height_ratios=[3.4, 3.6, 0.2 + 2.5 * len(kinds)])
        places = np.arange(1, info.loss.shape[2] + 1, dtype=float)
        draw_heat_maps(above, info, places)
        draw_onsets(middle.subplots(), info, places)
        draw_losses(below, info, kinds)
        return figure


def kinds_of(info: PositionsInfo) -> dict[str, Any]:
    """Positions (from 0) by kind, without kinds that do not occur: their losses are far apart."""
    fixed = np.isin(np.arange(info.loss.shape[2]), info.determined)
    kinds = {"free positions": ~fixed, "positions that the rule determines": fixed}
    return {name: np.flatnonzero(members) for name, members in kinds.items() if members.any()}


def draw_heat_maps(figure: Any, info: PositionsInfo, places: Any) -> None:
    """The loss on unseen samples, and by how much it exceeds the training loss."""
    reach = float(np.abs(info.gap).max()) or 1.0
    panels: list[tuple[str, Any, str, float, float]] = [
        ("loss on valid, unseen samples", info.of("held_out"), "viridis", 0.0, 1.3 * info.uniform),
        ("held-out minus training loss", info.gap, "RdBu_r", -reach, reach),
    ]
    for axis, (title, values, cmap, low, high) in zip(figure.subplots(1, 2), panels, strict=True):
        drawn = heat(axis, info.steps, places, values, log_y=False, cmap=cmap, vmin=low, vmax=high)
        axis.set_title(title, fontsize=9)
        axis.set_ylabel("position")
        mark_determined(axis, info)
        colour_bar(figure, drawn, axis, "nats")


def draw_losses(figure: Any, info: PositionsInfo, kinds: dict[str, Any]) -> None:
    """Losses over the positions at a few steps, one row per kind of position: free ones have a floor above 0."""
    chosen = shown_steps(info.steps, info.clocks)
    rows = figure.subplots(len(kinds), len(chosen), squeeze=False, sharex=True, sharey="row")
    for axes, (kind, members) in zip(rows, kinds.items(), strict=True):
        for axis, at in zip(axes, chosen, strict=True):
            draw_kind(axis, info, at, members)
            axis.set_title(f"step {info.steps[at]:,}", fontsize=9)
        if len(kinds) > 1 and members[0] in info.determined:
            plain_log(axes[0], "y")  # of the whole row
            axes[0].set_ylim(bottom=SMALLEST)
        axes[0].set_ylabel(f"cross-entropy (nats)\n{kind}", fontsize=8.5)
    for axis in rows[-1]:
        axis.set_xlabel("position")
    figure.legend(*rows[0, 0].get_legend_handles_labels(), loc="outside lower left", ncols=5, **SMALL)


def draw_kind(axis: Any, info: PositionsInfo, at: int, members: Any) -> None:
    """The losses of one kind of position at one step, with the floors."""
    dots: dict[str, Any] = {"linewidth": 1.2, "marker": "o", "markersize": 3}
    for name, (label, colour) in SPLIT_STYLES.items():
        shown = np.maximum(info.of(name)[at, members], SMALLEST)
        axis.plot(members + 1, shown, color=light(colour), label=label, **dots)
    for floor, colour, label in (
        (info.rule_floor, "rule", "floor of the rule"),
        (info.memory_floor, "memory", "floor of the training set"),
    ):
        dashes = {"linestyle": (0, (4, 2)), "linewidth": 1.0, "label": label}
        axis.plot(members + 1, np.maximum(floor[members], SMALLEST), color=light(colour), **dashes)


def draw_onsets(axis: Any, info: PositionsInfo, places: Any) -> None:
    """When each position is half learned, and when its losses split."""
    for onsets, colour, label in (
        (info.rule_onsets, "rule", "determined by the rule: half learned"),
        (info.memory_onsets, "memory", "losses split"),
    ):
        seen = [(one, place) for one, place in zip(onsets, places, strict=True) if one is not None and one.seen]
        if seen:
            ends, at = [one.upper for one, _ in seen], [place for _, place in seen]
            axis.plot(ends, at, "o", color=light(colour), label=label, markersize=5)
            for one, place in seen:
                axis.plot([max(one.lower, info.steps[0] * 0.7, 0.5), one.upper], [place] * 2, color=light(colour))
    plain_log(axis, "x")
    axis.set_xlim(max(info.steps[0] * 0.7, 0.5), info.steps[-1] * 1.1)
    axis.set_ylim(0, len(places) + 1)
    axis.set(xlabel="training step", ylabel="position")
    axis.set_title("onset by position: the interval of each, its end as a dot", fontsize=9, pad=14)
    mark_clocks(axis, info.clocks)
    if axis.get_legend_handles_labels()[0]:
        legend_below(axis)


def mark_determined(axis: Any, info: PositionsInfo) -> None:
    """Mark the positions that the rule determines at the right edge."""
    marker_style = {"marker": "<", "color": light("rule"), "markersize": 4, "clip_on": False, "linestyle": "none"}
    axis.plot([1.0] * len(info.determined), info.determined + 1, transform=axis.get_yaxis_transform(), **marker_style)
