"""Drawing of ``approach``: distance to the nearest training sample over training."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoclocks.core.theme import light
from twoclocks.dissection.view import confidence_words
from twoclocks.dissection.views.approach import GROUPS, ApproachInfo
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing, Figure
from twoclocks.report.drawings.parts import figure_of, line_with_band, mark_clocks, step_axis
from twoclocks.report.legends import legend_below

FEW = 5  # samples below which no mean is drawn
COLOURS = {"all": "ink", "valid": "rule", "valid-new": "new"}
NAMES = {"all": "all samples", "valid": "valid samples", "valid-new": "valid and new samples"}
IMAGE_NAMES = {"all": "all samples", "valid-new": "samples that are no copies"}
IMAGE_DISTANCE = "distance to the nearest training image\n(root mean square, pixels from −1 to 1)"


@DRAWINGS.register("approach")
class ApproachDrawing(Drawing):
    title = "Distance to the training set"
    order = 20

    def draw(self, info: ApproachInfo) -> Figure:
        figure = figure_of(7.2, 3.2)
        axis = figure.subplots()
        draw_approach(axis, info)
        axis.set_ylabel(IMAGE_DISTANCE if info.images else "entries that differ from\nthe nearest training sample")
        legend_below(axis)
        return figure


def draw_approach(axis: Any, info: ApproachInfo) -> None:
    """Mean distances over training, what new samples of the rule have, and when valid and new ones come nearer."""
    names = IMAGE_NAMES if info.images else NAMES
    for k, group in enumerate(GROUPS):
        if group not in names:
            continue
        mean = np.where(info.number[:, k] >= FEW, info.mean[:, k], np.nan)
        reach = 2 * info.error[:, k]
        ends = mean - reach, mean + reach
        line_with_band(axis, info.steps, mean, *ends, light(COLOURS[group]), label=names[group])
    dashes = {
        "linestyle": (0, (5, 4)),
        "linewidth": 1,
        "label": "held-out images" if info.images else "new samples of the rule",
    }
    axis.axhline(info.chance, color=light("new"), **dashes)
    step_axis(axis, info.steps)
    mark_clocks(axis, info.clocks)
    if info.onset is not None and info.onset.seen:
        label = f"nearer than {'held-out images' if info.images else 'chance'}{confidence_words(info.confidence)}"
        axis.axvline(info.onset.upper, color=light("new"), linewidth=1, linestyle=":", label=label)
    axis.set_ylim(bottom=0)
