"""P1 Fig. 14: the denoising loss in bands of noise scales over training, below the states of samples."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light
from twoclocks.dissection.spectrum_info import SpectrumInfo
from twoclocks.dissection.subject import SPLITS
from twoclocks.dissection.views.raster import RasterInfo
from twoclocks.papers.drawing import styled
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.dissected import GRIDS, Seen, seen
from twoclocks.report.drawings.parts import ORACLES, SMALL, SPLIT_STYLES, figure_of, mark_clocks, step_axis
from twoclocks.report.drawings.raster import draw_shares
from twoclocks.report.drawings.spectrum import FLOOR

EDGES = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, np.inf)  # borders of the bands, for symbols at distance 2


@dataclass(frozen=True)
class Band:
    """The mean loss over the σ of a band."""

    name: str
    low: float  # the smallest and the largest σ of the view in it
    high: float
    loss: Floats  # (steps, SPLITS)
    floors: dict[str, float]  # oracle: its exact loss


@dataclass(frozen=True)
class BandsInfo:
    seen: Seen[SpectrumInfo]
    raster: RasterInfo
    bands: tuple[Band, ...]


@FIGURES.register("fig14")
class LossBands(PaperFigure[BandsInfo]):
    """Top: states of samples; below: one panel per band."""

    id: ClassVar[str] = "fig14"
    title: ClassVar[str] = "Denoising loss over training in bands of noise scales"
    shows: ClassVar[str] = "loss on training, unseen valid and uniform samples over training, for bands of σ"
    claims: ClassVar[tuple[str, ...]] = ("A14",)
    grids: ClassVar[tuple[str, ...]] = GRIDS

    def data(self, records: Records) -> BandsInfo:
        found, raster = seen(records, "spectrum"), seen(records, "raster")
        return BandsInfo(found, raster.first, bands_of(found.first))

    @styled
    def draw(self, info: BandsInfo) -> Any:
        figure = figure_of(9.6, 7.2)
        rows = figure.add_gridspec(3, 1, height_ratios=[0.8, 1, 1])
        draw_shares(figure.add_subplot(rows[0]), info.raster)
        across = -(-len(info.bands) // 2)
        axes = rows[1:].subgridspec(2, across).subplots(squeeze=False)
        for axis, band in zip(axes.flat, info.bands, strict=False):
            draw_band(axis, info.seen.first, band)
        for axis in axes.flat[len(info.bands) :]:
            axis.set_axis_off()
        for axis in axes[:, 0]:
            axis.set_ylabel("denoising loss", fontsize=8.5)
        axes[0, 0].legend(loc="upper right", **SMALL)
        return figure

    def caption(self, info: BandsInfo) -> str:
        spectrum = info.seen.first
        rule = info.seen.over_seeds(lambda one: one.rule_clock.estimate, ",.0f")
        memory = info.seen.over_seeds(lambda one: one.memory_clock.estimate, ",.0f")
        clocks = "" if spectrum.clocks is None else f"; τ_rule {spectrum.clocks.rule}, τ_mem {spectrum.clocks.memory}"
        return (
            "Top: states of the samples. Below: mean denoising loss in bands of σ over training, on training samples, "
            "valid unseen ones and uniform bits; dashed: exact loss of the ideal denoisers; shaded: τ_rule (blue) and "
            f"τ_mem (orange) ({info.seen.words}{clocks}). The loss on uniform bits departs at "
            f"step {rule}, that on unseen samples at step {memory}. P1: losses at small σ fall together; at "
            "intermediate σ they split, before the samples show it."
        )


def bands_of(info: SpectrumInfo) -> tuple[Band, ...]:
    """The mean loss in each band that holds a noise scale of the view."""
    found = []
    for low, high in pairwise(EDGES):
        inside = (info.sigmas >= low * info.unit) & (info.sigmas < high * info.unit)
        if inside.any():
            floors = {name: float(info.floor[k, inside].mean()) for k, name in enumerate(info.oracles)}
            ends = info.sigmas[inside]
            found.append(
                Band(
                    band_name(low * info.unit, high * info.unit),
                    float(ends[0]),
                    float(ends[-1]),
                    info.loss[:, :, inside].mean(axis=2),
                    floors,
                )
            )
    return tuple(found)


def band_name(low: float, high: float) -> str:
    """Such as ``σ below 0.1`` or ``σ from 0.1 to 0.2``."""
    if not low:
        return f"σ below {high:.2g}"
    return f"σ above {low:.2g}" if np.isinf(high) else f"σ from {low:.2g} to {high:.2g}"


def draw_band(axis: Any, info: SpectrumInfo, band: Band) -> None:
    """Losses over training in one band, with the floors of the ideal denoisers."""
    for k, name in enumerate(SPLITS):
        label, colour = SPLIT_STYLES[name]
        axis.plot(info.steps, band.loss[:, k], color=light(colour), label=label, linewidth=1.5)
    for name, floor in band.floors.items():
        axis.axhline(floor, color=light(ORACLES[name]), **FLOOR)
    axis.set_title(band.name, fontsize=9)
    axis.set_ylim(0, 1.1 * float(max(band.loss[len(band.loss) // 4 :].max(), *band.floors.values())))
    step_axis(axis, info.steps)
    mark_clocks(axis, info.clocks, named=False)
