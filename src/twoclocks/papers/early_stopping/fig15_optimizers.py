"""P2 Fig. 15: copies of D3PM on a grammar with Adam and with gradient descent, each at its largest stable rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light
from twoclocks.papers.drawing import GROUND, log_steps, new_figure
from twoclocks.papers.early_stopping.b06_grammar import optimizer_runs, seeds_of
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.intervals import interval_of, median_of
from twoclocks.papers.records import Records
from twoclocks.report.drawings.parts import SMALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"Adam": "new", "SGD": "rule", "SGD, momentum 0.9": "memory"}


@dataclass(frozen=True)
class CopiesInfo:
    """The data of the figure: steps and copies of every run, by optimizer."""

    curves: dict[str, tuple[tuple[Floats, Floats], ...]]
    n: int
    words: str
    seeds: str


@FIGURES.register("p2-fig15")
class GrammarOptimizers(PaperFigure[CopiesInfo]):
    """One panel: copies over the training step."""

    id: ClassVar[str] = "p2-fig15"
    title: ClassVar[str] = "Copies on a grammar with Adam and with gradient descent"
    shows: ClassVar[str] = (
        "fraction of copies over steps of D3PM on 2,048 strings of the grammar (24, 12, 3, 3), with Adam and SGD, each "
        "at its largest stable rate: the curves nearly coincide"
    )
    claims: ClassVar[tuple[str, ...]] = ("B6",)
    grids: ClassVar[tuple[str, ...]] = ("rhm-optimizers",)

    def data(self, records: Records) -> CopiesInfo:
        found = optimizer_runs(records)
        if not found:
            raise MissingRunsError("runs: there is none on the grammar (24, 12, 3, 3); make the runs first")
        onsets = {name: median_of([interval_of(one.memory) for one in runs]) for name, runs in found.items()}
        rates = {name: runs[0].record.value("training.learning_rate") for name, runs in found.items()}
        curves = {
            name: tuple((one.steps[one.steps > 0], np.asarray(one.copies[one.steps > 0])) for one in runs)
            for name, runs in found.items()
        }
        words = "; ".join(f"{name}, rate {rates[name]:.3g}: τ_mem {onset}" for name, onset in onsets.items())
        return CopiesInfo(curves, next(iter(found.values()))[0].n, words, seeds_of(found).words or "1")

    def draw(self, info: CopiesInfo) -> Figure:
        with new_figure(5.4, 3.4) as figure:
            axis = figure.subplots()
            for name, found in info.curves.items():
                for k, (steps, copies) in enumerate(found):
                    label = name if k == 0 else None
                    axis.plot(steps, copies, color=light(COLOURS[name]), linewidth=1.1, label=label)
            log_steps(axis, "x")
            axis.set(xlabel="training step", ylabel="fraction of copies", ylim=(-0.02, 1.02))
            axis.legend(loc="upper left", **SMALL, **GROUND)
            return figure

    def caption(self, info: CopiesInfo) -> str:
        return (
            f"Fraction of copies over training, D3PM on {info.n:,} strings of the grammar (24, 12, 3, 3), one line per "
            f"seed (seeds: {info.seeds}). {info.words}. P2 reads: the curves nearly coincide."
        )
