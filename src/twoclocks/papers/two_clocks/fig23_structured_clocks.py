"""P1 Fig. 23: onsets of validity, of new valid samples and of copies on structured rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from twoclocks.clocks.onset import Onset, onset
from twoclocks.evaluation import ValidNew
from twoclocks.papers.as_printed import PRINTED, STRUCTURED
from twoclocks.papers.drawing import log_steps, styled
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Record, Records
from twoclocks.papers.times import UNREACHED, Times, draw_times, rule_and_memory, seeds_words
from twoclocks.papers.two_clocks.structured_runs import ENCODINGS, GRIDS, TASKS, missing_words, structured
from twoclocks.report.drawings.parts import SMALL, figure_of

NOVEL = 0.5  # fraction of valid and new samples (P1 C.6)
MARKS = {  # clock: label, colour, marker
    "learned": (f"valid ≥ {STRUCTURED:g}", "rule", "o"),
    "novel": (f"valid and new ≥ {NOVEL:g}", "new", "s"),
    "copied": ("copies ≥ chance + 0.1", "memory", "^"),
}


@dataclass(frozen=True)
class TaskTimes:
    encoding: str
    preset: str
    times: dict[str, Times]  # by the clocks of MARKS


@dataclass(frozen=True)
class StructuredClocksInfo:
    n: int
    tasks: tuple[TaskTimes, ...]
    seeds: str
    missing: str


@FIGURES.register("fig23")
class StructuredClocks(PaperFigure[StructuredClocksInfo]):
    """Left: scalar encoding; right: one-hot."""

    id: ClassVar[str] = "fig23"
    title: ClassVar[str] = "Onsets on Latin squares and Sudoku"
    shows: ClassVar[str] = "steps of 85% valid samples, 50% valid and new ones, and of copying, in two encodings"
    claims: ClassVar[tuple[str, ...]] = ("A18",)
    grids: ClassVar[tuple[str, ...]] = GRIDS

    def data(self, records: Records) -> StructuredClocksInfo:
        found = structured(records)
        tasks = []
        for (encoding, preset), runs in found.items():
            learned, copied = rule_and_memory(runs, STRUCTURED)
            times = {"learned": learned, "novel": Times.of(map(novel_onset, runs)), "copied": copied}
            tasks.append(TaskTimes(encoding, preset, times))
        n = next(iter(found.values()))[0].n
        return StructuredClocksInfo(n, tuple(tasks), seeds_words(found.values()), missing_words(found))

    @styled
    def draw(self, info: StructuredClocksInfo) -> Any:
        figure = figure_of(8.6, 3.6)
        axes = figure.subplots(1, len(ENCODINGS), sharey=True)
        for axis, (encoding, title) in zip(axes, ENCODINGS.items(), strict=True):
            for task in (one for one in info.tasks if one.encoding == encoding):
                for k, (clock, (_, colour, marker)) in enumerate(MARKS.items()):
                    place = list(TASKS).index(task.preset) + 0.26 * (k - 1)
                    draw_times(axis, place, task.times[clock], colour, marker, spread=0.07)
            axis.set_xticks(range(len(TASKS)), list(TASKS.values()))
            axis.set_xlim(-0.6, len(TASKS) - 0.4)
            axis.set_title(title, fontsize=9)
            axis.grid(False, axis="x")
            axis.margins(y=0.12)
        axes[0].set_ylabel("training step")
        log_steps(axes[0], "y")
        figure.legend(handles=keys(), loc="outside upper center", ncols=4, **SMALL)
        return figure

    def caption(self, info: StructuredClocksInfo) -> str:
        said = [
            f"{TASKS[task.preset]}, {ENCODINGS[task.encoding]}: "
            + ", ".join(f"{MARKS[clock][0]} {times}" for clock, times in task.times.items())
            for task in info.tasks
        ]
        return (
            f"DiT-mini with N = {info.n:,}: the first of three evaluations in a row at which a threshold is reached, "
            f"one mark per seed. Median and range of steps over {info.seeds}: {'; '.join(said)}.{info.missing} P1: "
            "rows only come first, Latin squares and Sudoku later; with one-hot encoding copying is not reached."
        )


def novel_onset(one: Record) -> Onset:
    """When valid and new samples are the majority, as P1 reads onsets."""
    series = one.run.series()
    sustain = min(PRINTED.sustain, len(series.steps))
    return onset(series.steps, one.run.hits(ValidNew.name), series.trials, NOVEL, sustain, PRINTED.confidence)


def keys() -> list[Any]:
    """The entries of the legend."""
    from matplotlib.lines import Line2D

    from twoclocks.core.theme import light

    marks = [
        Line2D([], [], linestyle="none", marker=marker, color=light(colour), markersize=5.5, label=label)
        for label, colour, marker in MARKS.values()
    ]
    return [*marks, Line2D([], [], linestyle="none", label=UNREACHED)]
