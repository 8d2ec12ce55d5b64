"""Drawing of sampling paths: the nearest ideal by noise scale, and where fates are decided."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoclocks.dissection.views.trajectories import FATES, TrajectoriesInfo
from twoclocks.report.drawings.parts import (
    ORACLES,
    SMALL,
    figure_of,
    line_with_band,
    mark_clocks,
    moments,
    plain_log,
    step_axis,
)
from twoclocks.report.theme import light

FEW = 5  # paths whose quartiles are worth a place in the picture
COLOURS = {"settled": "ink", "valid": "rule", "copied": "memory"}
NAMES = {"settled": "what it ends as", "valid": "valid", "copied": "a copy"}


def draw(info: TrajectoriesInfo) -> Any:
    chosen = moments(info.steps, info.clocks)
    figure = figure_of(9.6, 5.4)
    rows = figure.add_gridspec(2, 1)
    first = rows[0].subgridspec(1, len(chosen)).subplots(sharey=True, squeeze=False)[0]
    names = (*info.oracles, "alike")
    shown = (info.sigmas >= 0.02) & (info.sigmas <= 20)
    for column, (axis, at) in enumerate(zip(first, chosen, strict=True)):
        parts = info.nearest[at][shown].T
        axis.stackplot(
            info.sigmas[shown], parts, colors=[light(ORACLES[n]) for n in names], labels=names, linewidth=0, alpha=0.9
        )
        plain_log(axis, "x")
        axis.set_xlim(float(info.sigmas[shown].max()), float(info.sigmas[shown].min()))
        axis.set(ylim=(0, 1), xlabel="σ, as sampling goes")
        axis.set_title(f"step {info.steps[at]:,}", fontsize=9)
        if not column:
            axis.set_ylabel("noises by nearest ideal")
            axis.legend(loc="lower left", **SMALL)
    left, right = rows[1].subgridspec(1, 2).subplots()
    for fate in FATES:
        enough = info.ended[fate][:, None] * info.noises >= FEW
        low, middle, high = np.where(enough, info.quartiles[fate], np.nan).T
        line_with_band(left, info.steps, middle, low, high, light(COLOURS[fate]), label=NAMES[fate], marker=".")
        right.plot(info.steps, info.ended[fate], color=light(COLOURS[fate]), label=NAMES[fate])
    plain_log(left, "y")
    known = np.concatenate([info.quartiles[fate].ravel() for fate in FATES])
    known = known[np.isfinite(known)]
    if len(known):
        left.set_ylim(max(0.02, known.min() / 1.3), known.max() * 1.3)
    left.set_ylabel("σ from which on a path is …")
    right.set(ylim=(0, 1.04), ylabel="part of paths that end so")
    for axis in (left, right):
        step_axis(axis, info.steps)
        mark_clocks(axis, info.clocks, named=False)
        axis.legend(loc="best", **SMALL)
    return figure
