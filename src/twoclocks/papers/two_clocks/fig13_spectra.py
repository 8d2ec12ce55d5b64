"""P1 Fig. 13: the denoising loss by noise scale at checkpoints of four phases."""

from __future__ import annotations

from typing import Any, ClassVar

from twoclocks.dissection.spectrum_info import SpectrumInfo
from twoclocks.dissection.subject import SPLITS
from twoclocks.papers.drawing import styled
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.dissected import GRIDS, Seen, seen
from twoclocks.report.drawings.parts import SMALL, figure_of
from twoclocks.report.drawings.spectrum import draw_spectrum


@FIGURES.register("fig13")
class Spectra(PaperFigure[Seen[SpectrumInfo]]):
    """One panel per checkpoint."""

    id: ClassVar[str] = "fig13"
    title: ClassVar[str] = "Denoising loss by noise scale"
    shows: ClassVar[str] = "loss over σ on training, unseen valid and uniform samples at four checkpoints"
    claims: ClassVar[tuple[str, ...]] = ("A14",)
    grids: ClassVar[tuple[str, ...]] = GRIDS

    def data(self, records: Records) -> Seen[SpectrumInfo]:
        return seen(records, "spectrum")

    @styled
    def draw(self, info: Seen[SpectrumInfo]) -> Any:
        figure = figure_of(10.4, 3.4)
        axes = figure.subplots(1, len(info.chosen), sharey=True, squeeze=False)[0]
        draw_spectra(axes, info.first, info.chosen)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=6, **SMALL)
        return figure

    def caption(self, info: Seen[SpectrumInfo]) -> str:
        last = len(info.first.steps) - 1
        unseen = info.over_seeds(lambda one: band_ratio(one, -1, "held_out"))
        cube = info.over_seeds(lambda one: band_ratio(one, -1, "cube"))
        early = info.over_seeds(lambda one: band_ratio(one, 0, "cube"))
        band = info.first.band
        return (
            "Unweighted denoising loss over σ at checkpoints of four phases (first, last before τ_rule, middle of the "
            "window, last), on training samples, valid unseen ones and uniform bits; dashed: exact loss of the ideal "
            f"denoisers; shaded: σ from {band[0]:g} to {band[1]:g} ({info.words}). Mean loss "
            f"in that band relative to training samples: uniform bits {early} at the first checkpoint and {cube} at "
            f"step {info.first.steps[last]:,}, unseen {unseen} there. P1: the three agree at first, uniform bits part "
            "after τ_rule, unseen samples after τ_mem."
        )


def draw_spectra(axes: Any, info: SpectrumInfo, chosen: tuple[int, ...]) -> None:
    """The spectrum of each chosen checkpoint in a panel of its own."""
    for axis, at in zip(axes, chosen, strict=True):
        draw_spectrum(axis, info, at)
        axis.set_title(f"step {info.steps[at]:,}", fontsize=9)
    axes[0].set_ylabel("denoising loss")


def band_ratio(info: SpectrumInfo, at: int, split: str) -> float:
    """The loss on a split, summed over the critical σ, divided by that on training samples."""
    loss = info.loss[at][:, info.in_band].sum(axis=1)
    return float(loss[SPLITS.index(split)] / loss[SPLITS.index("train")])
