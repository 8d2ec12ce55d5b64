"""P2 Fig. 4: losses, copies and errors of D3PM on a grammar, below and above the sample complexity P*."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light
from twoclocks.papers.drawing import BY_SIZE, colour_legend, colours_of, name_panel, new_figure
from twoclocks.papers.early_stopping.grammar_runs import VALID, GrammarRun, by_size, grammar_runs, seeds_at_each
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.intervals import interval_of, median_of
from twoclocks.papers.records import Records
from twoclocks.report.drawings.parts import plain_log
from twoclocks.runs.columns import LOSS_HELD_OUT, LOSS_TRAIN

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curve:
    """One run."""

    n: int
    steps: Floats
    train: Floats
    held_out: Floats
    copies: Floats
    errors: Floats


@dataclass(frozen=True)
class GrammarInfo:
    """The data of the figure."""

    curves: tuple[Curve, ...]
    complexity: int
    chance: dict[int, float]  # of a copy, by P
    words: tuple[str, ...]  # the onsets of each P
    seeds: str


@FIGURES.register("p2-fig4")
class GrammarSizes(PaperFigure[GrammarInfo]):
    """Four panels over the training step, in the colours of P."""

    id: ClassVar[str] = "p2-fig4"
    title: ClassVar[str] = "Memorization and generalization on a grammar"
    shows: ClassVar[str] = (
        "training and validation loss, fraction of copies and fraction of errors over steps for several P; dashed: "
        "τ* = P*; insets: the same on τ/P"
    )
    claims: ClassVar[tuple[str, ...]] = ("B1", "B2", "B7")
    grids: ClassVar[tuple[str, ...]] = ("rhm-sizes",)

    def data(self, records: Records) -> GrammarInfo:
        runs = [one for one in grammar_runs(records) if LOSS_HELD_OUT in one.columns]
        if not runs:
            raise MissingRunsError("runs: there is none on the grammar (16, 4, 3, 2); make the runs first")
        sizes = by_size(runs)
        return GrammarInfo(
            curves=tuple(map(curve_of, runs)),
            complexity=runs[0].complexity,
            chance={n: same[0].chance for n, same in sizes.items()},
            words=tuple(f"P = {n:,}: {onset_words(same)}" for n, same in sizes.items()),
            seeds=seeds_at_each(sizes).words or "1",
        )

    def draw(self, info: GrammarInfo) -> Figure:
        colours = colours_of([one.n for one in info.curves], BY_SIZE)
        with new_figure(9.6, 6.4) as figure:
            axes = figure.subplots(2, 2)
            for one in info.curves:
                shade = colours[one.n]
                axes[0, 0].plot(one.steps, one.train, color=shade, linewidth=1)
                axes[0, 0].plot(one.steps, one.held_out, color=shade, linewidth=1, linestyle=":")
                axes[0, 1].plot(one.steps, one.errors, color=shade, linewidth=1)
                axes[1, 0].plot(one.steps, one.copies, color=shade, linewidth=1)
                axes[1, 1].plot(one.steps / one.n, one.copies, color=shade, linewidth=1)
            titles = ("loss: training (line), held out (dotted)", "fraction of errors", "fraction of copies")
            for axis, letter, title in zip(axes.flat, "ABCD", (*titles, "copies on τ/P"), strict=True):
                finish(axis, letter, title)
            axes[1, 1].set_xlabel("training step / P")
            axes[0, 1].axhline(1 - VALID, color=light("muted"), linestyle="--", linewidth=0.8)
            for axis in axes.flat[:3]:
                axis.axvline(info.complexity, color=light("muted"), linestyle="--", linewidth=0.8)
            axes[0, 1].annotate("τ* = P*", (info.complexity, 0.02), color=light("muted"), fontsize=7.5)
            colour_legend(axes[1, 0], colours, "P", loc="upper left")
            return figure

    def caption(self, info: GrammarInfo) -> str:
        return (
            f"D3PM with a U-Net in the layout of P2's authors on the grammar (16, 4, 3, 2), seeds per P: {info.seeds}. "
            f"Vertical line: P* = {info.complexity:,} steps; horizontal line: 15% errors. "
            + "; ".join(info.words)
            + ". P2 reads: for P < P* errors fall only with copies; for P ≥ P* they fall before, after about P* steps; "
            "copies begin at a time proportional to P, so panel D should be one curve."
        )


def curve_of(one: GrammarRun) -> Curve:
    """The curves of a run; step 0 is left out, since steps are drawn on a log axis."""
    after = one.steps > 0
    parts = (one.columns[LOSS_TRAIN], one.columns[LOSS_HELD_OUT], one.copies, one.errors)
    return Curve(one.n, one.steps[after], *(np.asarray(part[after]) for part in parts))


def onset_words(runs: list[GrammarRun]) -> str:
    """The median onsets of one P."""
    learned = median_of([interval_of(one.learned) for one in runs])
    memory = median_of([interval_of(one.memory) for one in runs])
    return f"85% valid at {learned}, τ_mem {memory} (a copy by chance: {runs[0].chance:.1%})"


def finish(axis: Any, letter: str, title: str) -> None:
    """Axes and title of a panel."""
    plain_log(axis, "x")
    axis.set_xlabel("training step")
    name_panel(axis, letter, title)
