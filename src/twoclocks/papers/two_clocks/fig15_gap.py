"""P1 Fig. 15: where and when the loss on unseen samples departs from that on training samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twoclocks.core.theme import light
from twoclocks.dissection.spectrum_info import SpectrumInfo
from twoclocks.papers.drawing import styled
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.dissected import GRIDS, Seen, evenly, seen
from twoclocks.report.drawings.parts import (
    SMALL,
    colour_bar,
    figure_of,
    heat,
    line_with_band,
    mark_clocks,
    shades,
    step_axis,
)

TRACES = 5  # noise scales whose gap is drawn as a line


@dataclass(frozen=True)
class GapInfo:
    seen: Seen[SpectrumInfo]
    inside: tuple[int, ...]  # indices of the σ in the critical band
    traces: tuple[int, ...]  # and of those that are drawn as lines


@FIGURES.register("fig15")
class LossGap(PaperFigure[GapInfo]):
    """Left: heat map over step and σ; right: lines at some σ."""

    id: ClassVar[str] = "fig15"
    title: ClassVar[str] = "Onset of the gap between unseen and training samples"
    shows: ClassVar[str] = "held-out minus training loss over step and σ in [0.2, 2]"
    claims: ClassVar[tuple[str, ...]] = ("A14",)
    grids: ClassVar[tuple[str, ...]] = GRIDS

    def data(self, records: Records) -> GapInfo:
        found = seen(records, "spectrum")
        inside = tuple(int(k) for k in np.flatnonzero(found.first.in_band))
        return GapInfo(found, inside, evenly(inside, TRACES))

    @styled
    def draw(self, info: GapInfo) -> Any:
        figure = figure_of(9.6, 3.5)
        left, right = figure.subplots(1, 2)
        view, rows = info.seen.first, list(info.inside)
        gap = view.gap[:, rows]
        reach = float(np.abs(gap).max())
        drawn = heat(left, view.steps, view.sigmas[rows], gap, cmap="RdBu_r", vmin=-reach, vmax=reach)
        mark_ends(left, view)
        left.set(ylabel="σ", yticks=[0.2 * view.unit, 0.5 * view.unit, view.unit, 2 * view.unit])
        colour_bar(figure, drawn, left, "held-out minus training loss")
        for level, colour in zip(info.traces, shades(len(info.traces)), strict=True):
            middle, error = view.gap[:, level], 2 * view.gap_error[:, level]
            label = f"σ = {view.sigmas[level]:.2g}"
            line_with_band(right, view.steps, middle, middle - error, middle + error, colour, label=label)
        right.axhline(0, color=light("muted"), linewidth=0.8)
        right.set_ylabel("held-out minus training loss")
        step_axis(right, view.steps)
        mark_clocks(right, view.clocks)
        right.legend(loc="upper left", **SMALL)
        return figure

    def caption(self, info: GapInfo) -> str:
        split = info.seen.over_seeds(lambda one: one.first_split[0] if one.first_split is not None else None)
        peak = info.seen.over_seeds(lambda one: peak[0] if (peak := one.peak()) is not None else None)
        when = info.seen.over_seeds(lambda one: one.memory_clock.estimate, ",.0f")
        lead = info.seen.over_seeds(lambda one: one.leads().get("memory"), ".1f")
        return (
            "Denoising loss on valid unseen samples minus that on training samples, at the critical noise scales; "
            "dotted on the left: τ_rule and τ_mem; bands: two standard errors "
            f"({info.seen.words}). The gap opens first at σ = {split} and is largest at σ = "
            f"{peak}; over the band it opens at step {when}, {lead} times before τ_mem. It is 0 for the ideal "
            "denoiser of the rule. P1: it opens first near the middle of these scales, then spreads to both sides."
        )


def mark_ends(axis: Any, view: SpectrumInfo) -> None:
    """Vertical lines at both clocks: shading would hide the colours."""
    if view.clocks is None:
        return
    for onset, colour in ((view.clocks.rule, "rule"), (view.clocks.memory, "memory")):
        if onset.seen:
            axis.axvline(onset.upper, color=light(colour), linewidth=1.2, linestyle=":")
