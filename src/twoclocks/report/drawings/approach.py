"""Drawing of the approach: distance to the nearest training sample over training."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoclocks.dissection.views.approach import GROUPS, ApproachInfo
from twoclocks.report.drawings.parts import SMALL, figure_of, line_with_band, mark_clocks, step_axis
from twoclocks.report.theme import light

FEW = 5  # samples of which a mean is worth a place in the picture
COLOURS = {"all": "ink", "valid": "rule", "valid-new": "new"}
NAMES = {"all": "all samples", "valid": "valid samples", "valid-new": "valid and new samples"}


def draw(info: ApproachInfo) -> Any:
    figure = figure_of(7.2, 3.2)
    axis = figure.subplots()
    for k, group in enumerate(GROUPS):
        mean = np.where(info.number[:, k] >= FEW, info.mean[:, k], np.nan)
        reach = 2 * info.error[:, k]
        line_with_band(axis, info.steps, mean, mean - reach, mean + reach, light(COLOURS[group]), label=NAMES[group])
    axis.axhline(info.chance, color=light("new"), linestyle=(0, (5, 4)), linewidth=1, label="new samples of the rule")
    step_axis(axis, info.steps)
    mark_clocks(axis, info.clocks)
    if info.onset is not None and info.onset.seen:
        axis.axvline(info.onset.upper, color=light("new"), linewidth=1, linestyle=":", label="surely nearer")
    axis.set_ylabel("entries that differ from\nthe nearest training sample")
    axis.set_ylim(bottom=0)
    axis.legend(loc="lower left", **SMALL)
    return figure
