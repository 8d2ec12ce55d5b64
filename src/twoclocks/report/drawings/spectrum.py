"""Drawing of ``spectrum``: losses between exact floors, their splits over training, distance to each ideal."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoclocks.core.theme import light
from twoclocks.dissection.spectrum_info import SpectrumInfo
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing, Figure
from twoclocks.report.drawings.parts import (
    ORACLES,
    SMALL,
    SPLIT_STYLES,
    colour_bar,
    figure_of,
    heat,
    line_with_band,
    mark_clocks,
    plain_log,
    shown_steps,
    step_axis,
)
from twoclocks.report.legends import legend_below

TRACES = 4  # noise scales of the critical band whose losses are shown over training
NAMES = {"memory": "training set"}
FLOOR = {"linestyle": (0, (4, 2)), "linewidth": 1.1}


@DRAWINGS.register("spectrum")
class SpectrumDrawing(Drawing):
    title = "Denoising loss by noise scale, with exact floors"
    order = 50

    def draw(self, info: SpectrumInfo) -> Figure:
        chosen = shown_steps(info.steps, info.clocks)
        figure = figure_of(9.6, 11.0)
        rows = figure.add_gridspec(4, 1, height_ratios=[1.1, 0.9, 1, 1])
        spectra = rows[0].subgridspec(1, len(chosen)).subplots(sharey=True, squeeze=False)[0]
        for column, (axis, at) in enumerate(zip(spectra, chosen, strict=True)):
            draw_spectrum(axis, info, at)
            axis.set_title(f"step {info.steps[at]:,}", fontsize=9)
            if not column:
                axis.set_ylabel("denoising loss")
                figure.legend(*axis.get_legend_handles_labels(), loc="outside upper left", ncols=6, **SMALL)
        traces = rows[1].subgridspec(1, TRACES).subplots(squeeze=False)[0]
        for axis, sigma in zip(traces, np.geomspace(*info.band, TRACES + 2)[1:-1], strict=True):
            draw_traces(axis, info, int(np.abs(np.log(info.sigmas / sigma)).argmin()))
        traces[0].set_ylabel("denoising loss")
        second = rows[2].subgridspec(1, 2).subplots()
        reach = float(np.abs(info.gap).max())
        drawn = heat(second[0], info.steps, info.sigmas, info.gap, cmap="RdBu_r", vmin=-reach, vmax=reach)
        for end in info.band:
            second[0].axhline(end, color=light("muted"), linewidth=0.8, linestyle=":")
        second[0].set(ylabel="σ")
        second[0].set_title("held-out minus training loss", fontsize=9)
        colour_bar(figure, drawn, second[0], "")
        draw_learned(second[1], info)
        draw_distances(figure, rows[3], info)
        return figure


def split_style(info: SpectrumInfo, split: str) -> tuple[str, str]:
    """Label and colour of a split; nothing says whether a held-out image is valid."""
    label, colour = SPLIT_STYLES[split]
    return ("held-out" if split == "held_out" and not info.has_rule else label), colour


def draw_spectrum(axis: Any, info: SpectrumInfo, at: int) -> None:
    """Losses by σ at one step, with the floors."""
    for name, floor in zip(info.oracles, info.floor, strict=True):
        shown = np.maximum(floor, 1e-5)
        axis.plot(
            info.sigmas, shown, color=light(ORACLES[name]), label=f"floor of the {NAMES.get(name, name)}", **FLOOR
        )
    for name in info.splits:
        label, colour = split_style(info, name)
        axis.plot(info.sigmas, np.maximum(info.of(name)[at], 1e-5), color=light(colour), label=label, linewidth=1.6)
    axis.axvspan(*info.band, color=light("line"), alpha=0.4, linewidth=0, zorder=0)
    plain_log(axis, "x")
    plain_log(axis, "y")
    axis.set(xlabel="σ" if info.has_rule else "σ (pixels from −1 to 1)", ylim=(1e-4, 2))


def draw_distances(figure: Any, place: Any, info: SpectrumInfo) -> None:
    """Distance to each ideal by σ over training; of images, which have one ideal, the share of memory beside it."""
    axes = place.subgridspec(1, len(info.oracles) + (not info.has_rule)).subplots(sharey=True, squeeze=False)[0]
    logs = np.log10(np.maximum(info.distance[:, :, info.splits.index("train")], 1e-6))
    for k, (axis, name) in enumerate(zip(axes, info.oracles, strict=False)):
        drawn = heat(axis, info.steps, info.sigmas, logs[:, k], cmap="viridis", vmin=-4, vmax=float(logs.max()))
        axis.set_title(f"distance to the ideal of the {NAMES.get(name, name)}", fontsize=9)
    axes[0].set_ylabel("σ")
    colour_bar(figure, drawn, list(axes[: len(info.oracles)]), "log₁₀ of mean squared distance")
    if not info.has_rule:
        share = np.clip(info.memory_share, 0, 1)
        drawn = heat(axes[1], info.steps, info.sigmas, share, cmap="cividis", vmin=0, vmax=1)
        axes[1].set_title("share of memory", fontsize=9)
        colour_bar(figure, drawn, axes[1], "")


def draw_traces(axis: Any, info: SpectrumInfo, level: int) -> None:
    """Losses over training at one σ, with the floors and the loss clocks."""
    for name in info.splits:
        label, colour = split_style(info, name)
        split = info.splits.index(name)
        loss, error = info.loss[:, split, level], 2 * info.error[:, split, level]
        line_with_band(axis, info.steps, loss, loss - error, loss + error, light(colour), label=label)
    for name, floor in zip(info.oracles, info.floor[:, level], strict=True):
        axis.axhline(floor, color=light(ORACLES[name]), **FLOOR)
    axis.set_title(f"σ = {info.sigmas[level]:.2g}, with floors", fontsize=9)
    axis.set_ylim(bottom=0)
    step_axis(axis, info.steps)
    mark_clocks(axis, info.clocks, named=False)
    for clock, colour in ((info.rule_clock, "rule"), (info.memory_clock, "memory")):
        if clock.seen:
            axis.axvline(clock.upper, color=light(colour), linewidth=1, linestyle=":")


def draw_learned(axis: Any, info: SpectrumInfo) -> None:
    """How much of the rule and of memory is learned over training."""
    for values, colour, label in (
        (info.rule_learned, "rule", "of the rule"),
        (info.memory_learned, "memory", "of memory"),
    ):
        if values is not None:
            axis.plot(info.steps, values, color=light(colour), label=label)
    for level in (0, 1):
        axis.axhline(level, color=light("muted"), linewidth=0.8)
    axis.set(ylim=(-1.05, 1.15) if info.has_rule else (-0.15, 1.15))
    axis.set_title("fraction learned, over the band" if info.has_rule else "share of memory, over the band", fontsize=9)
    step_axis(axis, info.steps)
    mark_clocks(axis, info.clocks, named=False)
    if info.has_rule and axis.get_legend_handles_labels()[0]:
        legend_below(axis)
