"""P2 Fig. 5: errors per layer of a deep grammar, and the distance of two models on disjoint data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light
from twoclocks.papers.drawing import BY_GROUP, colour_legend, colours_of, explain, name_panel, new_figure
from twoclocks.papers.early_stopping.b03_layers import layer_onsets
from twoclocks.papers.early_stopping.b04_twins import losses_part
from twoclocks.papers.early_stopping.grammar_runs import GrammarRun, grammar_runs
from twoclocks.papers.early_stopping.runs import DEEP, DEEP_SIZE
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.twins import twins_of
from twoclocks.report.drawings.parts import plain_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Distance:
    """The Hellinger distance of two models' outputs over training."""

    steps: Floats
    mean: Floats
    low: Floats
    high: Floats
    chance: Floats


@dataclass(frozen=True)
class LayersInfo:
    """The data of the figure: one run, and all comparisons of twins."""

    n: int
    steps: Floats
    errors: dict[int, Floats]  # by layer, from the leaves up
    copies: Floats
    distances: tuple[Distance, ...]
    memory: float | None  # when the losses part in the run that is shown
    words: str


@FIGURES.register("p2-fig5")
class LayersAndTwins(PaperFigure[LayersInfo]):
    """Two panels over the training step."""

    id: ClassVar[str] = "p2-fig5"
    title: ClassVar[str] = "Partial generalization before memorization"
    shows: ClassVar[str] = (
        "(a) the fraction of errors at each layer of the grammar and the fraction of copies; (b) the distance between "
        "the outputs of two models that were trained on disjoint sets, which grows after τ_mem"
    )
    claims: ClassVar[tuple[str, ...]] = ("B3", "B4")
    grids: ClassVar[tuple[str, ...]] = ("rhm-deep",)

    def data(self, records: Records) -> LayersInfo:
        own = records.where(data__n=records.scale.sizes((DEEP_SIZE,)))
        runs = grammar_runs(own, DEEP)
        compared = grammar_runs(own.having(lambda one: twins_of(one) is not None), DEEP)
        chosen = max(runs, key=lambda one: (one.copies.max(), -one.record.seed), default=None)
        if chosen is None:
            raise MissingRunsError("runs: there is none on the grammar (16, 3, 5, 2); make the runs first")
        after = chosen.steps > 0
        gap = losses_part(chosen.record)
        return LayersInfo(
            n=chosen.n,
            steps=chosen.steps[after],
            errors={level: values[after] for level, values in layer_errors(chosen).items()},
            copies=chosen.copies[after],
            distances=tuple(one for run in compared if (one := distance_of(run)) is not None),
            memory=None if gap is None else gap.estimate,
            words=words_of(chosen),
        )

    def draw(self, info: LayersInfo) -> Figure:
        with new_figure(9.6, 3.6) as figure:
            left, right = figure.subplots(1, 2)
            colours = colours_of([*info.errors], BY_GROUP)
            for level, values in info.errors.items():
                left.plot(info.steps, values, color=colours[level])
            left.plot(info.steps, info.copies, color=light("memory"), linestyle="--")
            colour_legend(left, colours, "layer (dashed: copies)", loc="best")
            for one in info.distances:
                right.fill_between(one.steps, one.low, one.high, color=light("rule"), alpha=0.2, linewidth=0)
                right.plot(one.steps, one.mean, color=light("rule"))
                right.plot(one.steps, one.chance, color=light("muted"), linestyle=":")
            if not info.distances:
                explain(right, "No twins have been compared yet.")
            for axis in (left, *([right] if info.distances else [])):
                mark(axis, info.memory)
            name_panel(left, "A", "fraction of errors per layer")
            name_panel(right, "B", "Hellinger distance of two models' outputs")
            return figure

    def caption(self, info: LayersInfo) -> str:
        count = len(info.distances)
        twins = f"{count} pair{'s' if count != 1 else ''} of twins" if count else "no twins yet"
        return (
            f"D3PM on the grammar (16, 3, 5, 2) with {info.n:,} strings. A: the run with the most copies. "
            f"{info.words}. B: {twins}, 95% bands; dotted: outputs on different strings. Vertical line: the held-out "
            "loss exceeds the training loss by 0.1 nats per token, as P2 reads τ_mem. P2 reads: the deepest layers are "
            "never learned but by copying, and two models agree until τ_mem."
        )


def layer_errors(one: GrammarRun) -> dict[int, Floats]:
    """The fraction of wrong nodes by layer, from the leaves up."""
    series = one.record.run.series()
    valid = [np.asarray(part) / np.asarray(series.trials) for part in (series.parts or {}).values()]
    return {level: np.asarray(1 - proportion) for level, proportion in enumerate(valid, start=1)}


def distance_of(one: GrammarRun) -> Distance | None:
    """The comparison of a run with its twin; None where there is none."""
    found = twins_of(one.record)
    outputs: dict[str, Any] | None = None if found is None else found["hellinger"]
    if outputs is None:
        return None
    steps = np.asarray(outputs["steps"], dtype=np.float64)
    values = (np.asarray(outputs[name], dtype=np.float64) for name in ("mean", "low", "high", "chance"))
    return Distance(steps[steps > 0], *(value[steps > 0] for value in values))


def words_of(one: GrammarRun) -> str:
    """The onsets of the layers and of memory."""
    layers = ", ".join(f"layer {level} {onset}" for level, onset in enumerate(layer_onsets(one), start=1))
    return f"85% of the nodes valid: {layers}; losses part {losses_part(one.record)}, τ_mem by copies {one.memory}"


def mark(axis: Any, memory: float | None) -> None:
    """The axis of steps, with τ_mem."""
    plain_log(axis, "x")
    axis.set_xlabel("training step")
    if memory is not None:
        axis.axvline(memory, color=light("memory"), linewidth=0.8)
