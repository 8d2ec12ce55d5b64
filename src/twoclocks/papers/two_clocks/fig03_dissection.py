"""P1 Fig. 3: rule learning and memorization seen from samples, losses and the score field of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twoclocks.dissection.spectrum_info import SpectrumInfo
from twoclocks.dissection.views.basin import LINES, BasinInfo
from twoclocks.dissection.views.field import FieldInfo
from twoclocks.dissection.views.raster import RasterInfo
from twoclocks.papers.drawing import letter, styled
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.dissected import GRIDS, Seen, seen
from twoclocks.papers.two_clocks.fig13_spectra import draw_spectra
from twoclocks.report.drawings.basin import draw_profiles
from twoclocks.report.drawings.field import draw_pull, draw_score, largest_score
from twoclocks.report.drawings.parts import SMALL, figure_of, shades
from twoclocks.report.drawings.raster import draw_matrix, draw_states
from twoclocks.report.drawings.spectrum import draw_traces

TRACED = (0.35, 0.63, 1.1)  # σ of the loss traces, for symbols at distance 2


@dataclass(frozen=True)
class DissectionInfo:
    """The views of the same runs; one that was not measured is None, and its panel stays empty."""

    raster: Seen[RasterInfo]
    spectrum: Seen[SpectrumInfo] | None
    field: Seen[FieldInfo] | None
    basin: Seen[BasinInfo] | None
    traced: tuple[int, ...]  # indices of the σ of the loss traces

    @property
    def missing(self) -> list[str]:
        found = {"spectrum": self.spectrum, "field": self.field, "basin": self.basin}
        return [name for name, view in found.items() if view is None]


@FIGURES.register("fig3")
class DissectionFigure(PaperFigure[DissectionInfo]):
    """A: states of samples; B: losses over training; C: losses over σ; D: score field; E: basins."""

    id: ClassVar[str] = "fig3"
    title: ClassVar[str] = "Rule learning and memorization, seen from samples, losses and the score field"
    shows: ClassVar[str] = "states of fixed noises, denoising losses, the score field and basins of one DiT-mini"
    claims: ClassVar[tuple[str, ...]] = ("A12", "A14", "A15")
    grids: ClassVar[tuple[str, ...]] = GRIDS

    def data(self, records: Records) -> DissectionInfo:
        raster = seen(records, "raster")
        spectrum, field, basin = (seen_or_none(records, name) for name in ("spectrum", "field", "basin"))
        traced: tuple[int, ...] = ()
        if spectrum is not None:
            view = spectrum.first
            traced = tuple(int(np.abs(np.log(view.sigmas / view.unit / sigma)).argmin()) for sigma in TRACED)
        return DissectionInfo(raster, spectrum, field, basin, traced)

    @styled
    def draw(self, info: DissectionInfo) -> Any:
        figure = figure_of(11.0, 12.8)
        rows = figure.add_gridspec(4, 1, height_ratios=[1.35, 1, 1, 1.45])
        draw_samples(figure, rows[0], info.raster.first)
        if info.spectrum is not None:
            traces = rows[1].subgridspec(1, len(info.traced)).subplots(squeeze=False)[0]
            for axis, level in zip(traces, info.traced, strict=True):
                draw_traces(axis, info.spectrum.first, level)
            traces[0].set_ylabel("denoising loss")
            letter(traces[0], "B")
            spectra = rows[2].subgridspec(1, len(info.spectrum.chosen)).subplots(sharey=True, squeeze=False)[0]
            draw_spectra(spectra, info.spectrum.first, info.spectrum.chosen)
            figure.legend(*spectra[0].get_legend_handles_labels(), loc="outside lower left", ncols=6, **SMALL)
            letter(spectra[0], "C")
        last = rows[3].subgridspec(1, 2, width_ratios=[1.9, 1])
        if info.field is not None:
            draw_fields(last[0], info.field)
        if info.basin is not None:
            draw_basins(last[1], info.basin)
        return figure

    def caption(self, info: DissectionInfo) -> str:
        raster = info.raster
        copied = raster.over_seeds(lambda one: float(one.counts[-1, 3] / one.counts[-1].sum()), ".0%")
        new = raster.over_seeds(lambda one: float(one.counts[-1, 2] / one.counts[-1].sum()), ".0%")
        clocks = raster.first.clocks
        onsets = "" if clocks is None else f" τ_rule of the first seed: {clocks.rule}; τ_mem: {clocks.memory}."
        return (
            f"{raster.words}. A: states of {raster.first.states.shape[1]:,} fixed noises over "
            "training, and transition probabilities in the last window. B: denoising loss over training at three σ. C: "
            "loss over σ at four checkpoints. D: norm of the score and pull towards a training sample (a) or a valid "
            "unseen neighbour (b). E: how often the denoiser returns a training sample on lines to three kinds of "
            f"neighbours. Dashed: the ideal denoisers; dotted in B: losses depart.{onsets} At the last evaluation "
            f"{new} of the samples are valid and new, {copied} copies{raster.spread}."
            + (f" Not measured yet: {', '.join(info.missing)}." if info.missing else "")
            + " P1 (N = 4,096): corners of the cube are attractors at step 14k, valid ones at 119k, training samples "
            "at 492k."
        )


def seen_or_none(records: Records, name: str) -> Seen[Any] | None:
    """A view of the dissected runs; None where none of them has it."""
    try:
        return seen(records, name)
    except MissingRunsError:
        return None


def draw_samples(figure: Any, place: Any, info: RasterInfo) -> None:
    """A: states of the noises, and transitions in the last window."""
    left, right = place.subgridspec(1, 2, width_ratios=[2.4, 1])
    above, below = left.subgridspec(2, 1, height_ratios=[1, 1.6]).subplots()
    draw_states(above, below, info)
    above.set_ylabel("fraction")
    letter(above, "A")
    if info.windows:
        axis, window = figure.add_subplot(right), info.windows[-1]
        draw_matrix(axis, window.markov)
        axis.set_title(f"{window.name}\n(steps {window.first:,} to {window.last:,})", fontsize=8.5)
        axis.set_ylabel("from", fontsize=8)


def draw_fields(place: Any, found: Seen[FieldInfo]) -> None:
    """D: score and pull at the critical σ of each chosen checkpoint."""
    info, level = found.first, found.first.level
    axes = place.subgridspec(2, len(found.chosen)).subplots(squeeze=False)
    for column, at in enumerate(found.chosen):
        score, arrows = info.learned.score[at, level], info.learned.arrows[at, level]
        draw_score(axes[0, column], info, score, arrows, largest_score(info, level))
        draw_pull(axes[1, column], info, info.learned.pull[at, level])
        axes[0, column].set_title(f"step {info.steps[at]:,}", fontsize=9)
    axes[0, 0].set_ylabel(f"score, σ = {info.sigmas[level]:.2g}", fontsize=8.5)
    axes[1, 0].set_ylabel("pull to a (blue), b (red)", fontsize=8.5)
    letter(axes[0, 0], "D")


def draw_basins(place: Any, found: Seen[BasinInfo]) -> None:
    """E: how often the training sample is returned, on each kind of line."""
    axes = place.subgridspec(len(LINES), 1).subplots(sharex=True)
    colours = shades(len(found.chosen))
    for column, (axis, line) in enumerate(zip(axes, LINES, strict=True)):
        draw_profiles(axis, found.first, "match", column, found.chosen, colours)
        axis.set_title(f"towards a {line} neighbour", fontsize=8.5)
        axis.set_ylabel("returned", fontsize=8.5)
    axes[0].legend(loc="lower left", **{**SMALL, "fontsize": 6.5})
    axes[-1].set_xlabel("position on the line (1: the neighbour)", fontsize=8.5)
    letter(axes[0], "E")
