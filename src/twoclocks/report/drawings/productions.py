"""Drawing of ``productions``: how often each is used and expected, and which pairs are used together."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoclocks.core.theme import light
from twoclocks.dissection.views.productions import ProductionsInfo
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing, Figure
from twoclocks.report.drawings.parts import FIXED_INK, SMALL, colour_bar, figure_of

REACH = 4.0  # standard errors at which the colours end


@DRAWINGS.register("productions")
class ProductionsDrawing(Drawing):
    title = "Use of productions, compared with true samples"
    order = 40

    def draw(self, info: ProductionsInfo) -> Figure:
        figure = figure_of(9.8, max(4.2, 1.25 * info.layers + 0.8))
        left, right = figure.subfigures(1, 2, width_ratios=[1.15, 1])
        draw_usage(left, info)
        draw_pairs(right, info)
        return figure


def draw_usage(figure: Any, info: ProductionsInfo) -> None:
    """Mean usage of every production, one panel per layer, the root on top."""
    axes = figure.subplots(info.layers, 1, squeeze=False)[:, 0]
    place, band, fit = np.arange(info.width), 2 * info.band(), info.fits[info.early]
    for axis, layer in zip(axes, range(info.layers, 0, -1), strict=True):
        chosen = slice((layer - 1) * info.width, layer * info.width)
        expected, reach = info.truth.mean[chosen], band[chosen]
        band_style = {"step": "mid", "color": light("rule"), "linewidth": 0, "alpha": 0.2}
        axis.fill_between(place, expected - reach, expected + reach, label="±2σ of true samples", **band_style)
        axis.step(place, expected, where="mid", color=light("rule"), linewidth=1, label="grammar")
        dots = {"linestyle": "none", "marker": "o", "markersize": max(1.2, min(3.0, 200 / info.width))}
        axis.plot(place, info.usage[info.early, chosen], color=light("ink"), label="samples", **dots)
        test = f"χ²/dof = {fit.ratios[layer - 1]:.2f}, p = {fit.layer_chances[layer - 1]:.2g}" if fit.tested else ""
        axis.set_title(f"layer {layer}", fontsize=8.5, loc="left", pad=3)
        axis.set_title(test, fontsize=7.5, loc="right", pad=3, color=light("muted"))
        axis.set_xlim(-0.5, info.width - 0.5)
        axis.set_ylim(bottom=0)
        axis.tick_params(labelsize=7.5)
    axes[-1].set_xlabel("production (by symbol, then synonym)", fontsize=8.5)
    figure.supylabel("mean number per string", fontsize=8.5)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, **SMALL)


def draw_pairs(figure: Any, info: ProductionsInfo) -> None:
    """Deviation of the covariance of every pair of productions."""
    axis = figure.subplots()
    fit, number = info.fits[info.early], len(info.names)
    image_options = {"cmap": "RdBu_r", "vmin": -REACH, "vmax": REACH, "interpolation": "nearest", "origin": "lower"}
    drawn = axis.imshow(info.deviations, **image_options)
    for border in range(info.width, number, info.width):
        axis.axhline(border - 0.5, color=FIXED_INK, linewidth=0.6)
        axis.axvline(border - 0.5, color=FIXED_INK, linewidth=0.6)
    middles = [(layer + 0.5) * info.width - 0.5 for layer in range(info.layers)]
    names = [f"layer {layer + 1}" for layer in range(info.layers)]
    axis.set_xticks(middles, labels=names, fontsize=8)
    axis.set_yticks(middles, labels=names, fontsize=8, rotation=90, va="center")
    axis.tick_params(length=0)
    axis.grid(False)
    test = f"root mean square {fit.pairs[0]:.2f}, largest {fit.pairs[1]:.2f}" if fit.tested else "too few valid strings"
    axis.set_title(f"step {info.steps[info.early]:,}: covariances, {test}", fontsize=8.5)
    colour_bar(figure, drawn, axis, "deviation from true samples (standard errors)")
