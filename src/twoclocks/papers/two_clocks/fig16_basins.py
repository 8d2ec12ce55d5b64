"""P1 Fig. 16: profiles of the basins of training samples at checkpoints of three phases."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from twoclocks.core.theme import light
from twoclocks.dissection.views.basin import LINES, METRICS, BasinInfo
from twoclocks.papers.drawing import styled
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.dissected import GRIDS, Seen, seen
from twoclocks.report.drawings.basin import LABELS, draw_profiles
from twoclocks.report.drawings.parts import ORACLES, SMALL, figure_of, shades


@FIGURES.register("fig16")
class Basins(PaperFigure[Seen[BasinInfo]]):
    """Columns: lines to three kinds of neighbours; rows: exact match, Hamming distance, L2 distance."""

    id: ClassVar[str] = "fig16"
    title: ClassVar[str] = "Basins of training samples"
    shows: ClassVar[str] = "what the denoiser returns on lines from a training sample to three kinds of neighbours"
    claims: ClassVar[tuple[str, ...]] = ("A15",)
    grids: ClassVar[tuple[str, ...]] = GRIDS

    def data(self, records: Records) -> Seen[BasinInfo]:
        found = seen(records, "basin")
        return Seen(found.n, found.views, found.chosen[-3:])

    @styled
    def draw(self, info: Seen[BasinInfo]) -> Any:
        figure = figure_of(9.6, 7.0)
        axes = figure.subplots(len(METRICS), len(LINES), sharex=True)
        for column, line in enumerate(LINES):
            draw_column(axes[:, column], info, column)
            axes[0, column].set_title(f"towards a {line} neighbour", fontsize=9)
            axes[-1, column].set_xlabel("position on the line (1: the neighbour)", fontsize=8.5)
        for row, metric in enumerate(METRICS):
            axes[row, 0].set_ylabel(LABELS[metric], fontsize=8.5)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=6, **SMALL)
        return figure

    def caption(self, info: Seen[BasinInfo]) -> str:
        view, said = info.first, []
        for column, line in enumerate(LINES):
            widths = ", ".join(f"{width_words(info, at, column)} at step {view.steps[at]:,}" for at in info.chosen)
            ideal = ", ".join(f"{name} {view.ideal[k, view.level, column]:.2f}" for k, name in enumerate(view.oracles))
            said.append(f"towards a {line} neighbour {widths} (ideal: {ideal})")
        return (
            f"The denoiser at σ = {view.sigmas[view.level]:.2g} on lines from a training sample (0) to a neighbour "
            f"(1): how often it returns the training sample, and how far its output is from it; mean over "
            f"{view.anchors} training samples with 5–95% bootstrap bands; dashed: half-widths of the ideal denoisers "
            f"({info.words}). Half-width of the basin{info.spread}: "
            f"{'; '.join(said)}. P1: symmetric at first, then wider towards samples that break the rule, at last "
            "towards all."
        )


def draw_column(axes: Any, info: Seen[BasinInfo], column: int) -> None:
    """All metrics on one kind of line; half-widths of the ideal denoisers in the first panel."""
    view, colours = info.first, shades(len(info.chosen))
    for axis, metric in zip(axes, METRICS, strict=True):
        draw_profiles(axis, view, metric, column, info.chosen, colours)
    for k, name in enumerate(view.oracles):
        style = {"linestyle": (0, (4, 2)), "linewidth": 1.1, "label": f"ideal: {name}"}
        axes[0].axvline(view.ideal[k, view.level, column], color=light(ORACLES[name]), **style)


def width_words(info: Seen[BasinInfo], at: int, column: int) -> str:
    """The half-width of the basins on one kind of line over the seeds, at their checkpoints nearest to one step."""
    step = info.first.steps[at]
    return info.over_seeds(lambda one: float(one.width[np.abs(one.steps - step).argmin(), one.level, column]))
