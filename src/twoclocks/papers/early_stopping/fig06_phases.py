"""P2 Fig. 6: the phases of training over the number of samples, measured: a grammar, and parity by group size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from twoclocks.analysis.phases import PhaseDiagram, RunPhases, run_phases
from twoclocks.clocks.window import Clocks
from twoclocks.papers.as_printed import alike_settings, stable
from twoclocks.papers.early_stopping.grammar_runs import grammar_runs
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Record, Records
from twoclocks.papers.two_clocks.runs import DIT, GPT
from twoclocks.report.phases import draw_phases

PARITY = ((GPT, "GPT-mini", (2, 3, 4, 6)), (DIT, "DiT-mini", (3,)))


@FIGURES.register("p2-fig6")
class MeasuredPhases(PaperFigure[PhaseDiagram]):
    """One panel per rule and network, one bar per number of samples."""

    id: ClassVar[str] = "p2-fig6"
    title: ClassVar[str] = "Phase diagram of generalization and memorization"
    shows: ClassVar[str] = (
        "a sketch of the regimes over training time and number of samples: partial generalization, generalization, "
        "memorization"
    )
    claims: ClassVar[tuple[str, ...]] = ("B1", "B2", "A9")
    grids: ClassVar[tuple[str, ...]] = ("rhm-sizes", "gpt-groups", "gpt-law", "dit-law")

    def data(self, records: Records) -> PhaseDiagram:
        found = [*bars((one.record for one in grammar_runs(records)), "grammar (16, 4, 3, 2)")]
        for preset, name, groups in PARITY:
            for group in groups:
                runs = stable(records.baseline(preset, rule__group=group))
                found += bars((one for one in runs if to_memory(one)), f"{name}, {group} bits")
        if not found:
            raise MissingRunsError("runs: there is none on the grammar or on parity; make the runs first")
        return PhaseDiagram(tuple(found), ())

    def draw(self, info: PhaseDiagram) -> Any:
        return draw_phases(info)

    def caption(self, info: PhaseDiagram) -> str:
        counts = {group: len(info.of(group)) for group in info.groups}
        said = ", ".join(f"{group}: {count} N" for group, count in counts.items())
        return (
            f"Measured phases of one run per N (the smallest seed): {said}. A bar begins at the first evaluation and "
            "ends with the run; borders are the clocks' intervals with 95% bounds. P2's sketch has the same order: "
            "with more samples memorization comes later, and full generalization needs enough samples."
        )


def to_memory(one: Record) -> bool:
    """Whether a run was made to go on after τ_rule."""
    return one.run.settings.clocks.stop != "rule"


def bars(records: Iterable[Record], label: str) -> list[RunPhases]:
    """The phases of one run per N, in order of N: of the smallest seed, then the longest."""
    best: dict[int, Record] = {}
    for one in sorted(records, key=lambda one: (one.seed, -one.last_step)):
        best.setdefault(one.n, one)
    return [run_phases(best[n].run, label, alike_clocks(best[n])) for n in sorted(best)]


def alike_clocks(one: Record) -> Clocks:
    """The clocks by one threshold of copies for all runs."""
    return alike_settings(one.run.settings.clocks).read(one.run.series(), one.run.copy_chance, changes=False)
