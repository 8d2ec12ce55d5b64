"""Drawing of productions: how often each is used beside what the grammar says, and which pairs are used together."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoclocks.dissection.views.productions_info import ProductionsInfo
from twoclocks.report.drawings.parts import FIXED_INK, SMALL, colour_bar, figure_of
from twoclocks.report.theme import light

REACH = 4.0  # sampling noises at which the colours end


def draw(info: ProductionsInfo) -> Any:
    figure = figure_of(9.8, max(4.2, 1.25 * info.layers + 0.8))
    left, right = figure.subfigures(1, 2, width_ratios=[1.15, 1])
    draw_usage(left, info)
    draw_pairs(right, info)
    return figure


def draw_usage(figure: Any, info: ProductionsInfo) -> None:
    """A panel a layer, the root's on top."""
    axes = figure.subplots(info.layers, 1, squeeze=False)[:, 0]
    place, band, fit = np.arange(info.width), 2 * info.band(), info.fits[info.early]
    for axis, layer in zip(axes, range(info.layers, 0, -1), strict=True):
        chosen = slice((layer - 1) * info.width, layer * info.width)
        expected, reach = info.truth.mean[chosen], band[chosen]
        drawn_as = {"step": "mid", "color": light("rule"), "linewidth": 0}
        axis.fill_between(place, expected - reach, expected + reach, alpha=0.2, label="±2σ of true samples", **drawn_as)
        axis.step(place, expected, where="mid", color=light("rule"), linewidth=1, label="grammar")
        dots = {"linestyle": "none", "marker": "o", "markersize": max(1.2, min(3.0, 200 / info.width))}
        axis.plot(place, info.usage[info.early, chosen], color=light("ink"), label="samples", **dots)
        told = f"χ²/dof = {fit.ratios[layer - 1]:.2f}, p = {fit.layer_chances[layer - 1]:.2g}" if fit.said else ""
        axis.set_title(f"layer {layer}", fontsize=8.5, loc="left", pad=3)
        axis.set_title(told, fontsize=7.5, loc="right", pad=3, color=light("muted"))
        axis.set_xlim(-0.5, info.width - 0.5)
        axis.set_ylim(bottom=0)
        axis.tick_params(labelsize=7.5)
    axes[-1].set_xlabel("production (by symbol, then synonym)", fontsize=8.5)
    figure.supylabel("mean occurrence in a string", fontsize=8.5)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, **SMALL)


def draw_pairs(figure: Any, info: ProductionsInfo) -> None:
    axis = figure.subplots()
    fit, number = info.fits[info.early], len(info.names)
    drawn_as = {"cmap": "RdBu_r", "vmin": -REACH, "vmax": REACH, "interpolation": "nearest", "origin": "lower"}
    drawn = axis.imshow(info.deviations, **drawn_as)
    for border in range(info.width, number, info.width):
        axis.axhline(border - 0.5, color=FIXED_INK, linewidth=0.6)
        axis.axvline(border - 0.5, color=FIXED_INK, linewidth=0.6)
    middles = [(layer + 0.5) * info.width - 0.5 for layer in range(info.layers)]
    names = [f"layer {layer + 1}" for layer in range(info.layers)]
    axis.set_xticks(middles, labels=names, fontsize=8)
    axis.set_yticks(middles, labels=names, fontsize=8, rotation=90, va="center")
    axis.tick_params(length=0)
    axis.grid(False)
    told = f"root mean square {fit.pairs[0]:.2f}, largest {fit.pairs[1]:.2f}" if fit.said else "too few valid strings"
    axis.set_title(f"step {info.steps[info.early]:,}: covariances, {told}", fontsize=8.5)
    colour_bar(figure, drawn, axis, "deviation from true samples (sampling noises)")
