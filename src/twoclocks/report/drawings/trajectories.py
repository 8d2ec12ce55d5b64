"""Drawing of ``trajectories``: the nearest ideal by noise scale, and the σ at which outcomes are decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twoclocks.core.theme import light
from twoclocks.dissection.views.trajectories import LARGEST, TrajectoriesInfo
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing, Figure
from twoclocks.report.drawings.parts import (
    ORACLES,
    SMALL,
    figure_of,
    line_with_band,
    mark_clocks,
    plain_log,
    shades,
    shown_steps,
    step_axis,
)
from twoclocks.report.legends import legend_below

FEW = 5  # paths below which no quartiles are drawn
COLOURS = {"settled": "ink", "valid": "rule", "copied": "memory"}
NAMES = {"settled": "its final sample", "valid": "a valid sample", "copied": "a copy"}
IMAGE_NAMES = {"settled": "nearest to the training image of the final sample", "copied": "a copy"}


@DRAWINGS.register("trajectories")
class TrajectoriesDrawing(Drawing):
    title = "Noise scale at which samples are decided"
    order = 80

    def draw(self, info: TrajectoriesInfo) -> Figure:
        chosen = shown_steps(info.steps, info.clocks)
        figure = figure_of(9.6, 6.0)
        rows = figure.add_gridspec(2, 1)
        (draw_memory if info.images else draw_nearest)(figure, rows[0], info, chosen)
        left, right = rows[1].subgridspec(1, 2).subplots()
        names = IMAGE_NAMES if info.images else NAMES
        for outcome in info.outcomes:
            enough = info.ended[outcome][:, None] * info.noises >= FEW
            low, middle, high = np.where(enough, info.quartiles[outcome], np.nan).T
            line_with_band(
                left, info.steps, middle, low, high, light(COLOURS[outcome]), label=names[outcome], marker="."
            )
            if outcome != "settled" or not info.images:  # every path ends nearest to the image it ends nearest to
                right.plot(info.steps, info.ended[outcome], color=light(COLOURS[outcome]), label=names[outcome])
        plain_log(left, "y")
        known = np.concatenate([info.quartiles[outcome].ravel() for outcome in info.outcomes])
        known = known[np.isfinite(known)]
        if len(known):
            largest = min(known.max(), LARGEST) if info.images else known.max()
            left.set_ylim(max(0.02, known.min() / 1.3), largest * 1.3)
        left.set_ylabel("σ from which it is …" if info.images else "σ from which it rounds to …")
        right.set(ylim=(0, 1.04), ylabel="fraction of paths that end so")
        for axis in (left, right):
            step_axis(axis, info.steps)
            mark_clocks(axis, info.clocks, named=False)
            legend_below(axis)
        return figure


def draw_nearest(figure: Any, place: Any, info: TrajectoriesInfo, chosen: Sequence[int]) -> None:
    """The fraction of paths by their nearest ideal, one panel per checkpoint."""
    first = place.subgridspec(1, len(chosen)).subplots(sharey=True, squeeze=False)[0]
    names = (*info.oracles, "alike")
    shown = (info.sigmas >= 0.02) & (info.sigmas <= LARGEST)
    for column, (axis, at) in enumerate(zip(first, chosen, strict=True)):
        area_style = {"colors": [light(ORACLES[name]) for name in names], "linewidth": 0, "alpha": 0.9}
        labels = (*info.oracles, "two equally near")
        axis.stackplot(info.sigmas[shown], info.nearest[at][shown].T, labels=labels, **area_style)
        plain_log(axis, "x")
        axis.set_xlim(float(info.sigmas[shown].max()), float(info.sigmas[shown].min()))
        axis.set(ylim=(0, 1), xlabel="σ (sampling →)")
        axis.set_title(f"step {info.steps[at]:,}", fontsize=9)
        if not column:
            axis.set_ylabel("fraction by nearest ideal")
            figure.legend(*axis.get_legend_handles_labels(), loc="outside upper left", ncols=4, **SMALL)


def draw_memory(figure: Any, place: Any, info: TrajectoriesInfo, chosen: Sequence[int]) -> None:
    """Images: distance of the outputs to the training set's ideal, and how many are copies, by noise scale."""
    assert info.copies is not None
    left, right = place.subgridspec(1, 2).subplots()
    shown = (info.sigmas >= 0.02) & (info.sigmas <= LARGEST)
    for colour, at in zip(shades(len(chosen)), chosen, strict=True):
        label = f"step {info.steps[at]:,}"
        left.plot(info.sigmas[shown], np.sqrt(info.distance[at, shown, 0]), color=colour, label=label, marker=".")
        right.plot(info.sigmas[shown], info.copies[at, shown, 0], color=colour, label=label, marker=".")
    dashes = {"linestyle": (0, (4, 2)), "linewidth": 1.1, "label": "ideal of the training set, last step's paths"}
    right.plot(info.sigmas[shown], info.copies[chosen[-1], shown, 1], color=light("memory"), **dashes)
    left.set_ylabel("distance to the ideal\n(root mean square)")
    right.set(ylim=(-0.03, 1.04), ylabel="fraction that are copies")
    for axis in (left, right):
        plain_log(axis, "x")
        axis.set_xlim(float(info.sigmas[shown].max()), float(info.sigmas[shown].min()))
        axis.set_xlabel("σ (sampling →)")
    figure.legend(*right.get_legend_handles_labels(), loc="outside upper left", ncols=5, **SMALL)
