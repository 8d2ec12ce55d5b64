"""Claim B6 on a deep network: Adam and gradient descent copy after about as many steps (P2 App. F, Fig. 15)."""

from __future__ import annotations

from typing import Any, ClassVar

from twoclocks.papers.as_printed import diverged, stable
from twoclocks.papers.claim import CLAIMS, Claim, Judgement, all_of, not_run
from twoclocks.papers.early_stopping.grammar_runs import VARIED, GrammarRun
from twoclocks.papers.early_stopping.optimizer_runs import GRAMMAR, OPTIMIZER, OPTIMIZERS, STRINGS
from twoclocks.papers.early_stopping.runs import WIDTH
from twoclocks.papers.intervals import Interval, interval_of, is_within, median_of
from twoclocks.papers.records import Records
from twoclocks.papers.seeds import Seeds, fewest

ALIKE = 2.0


@CLAIMS.register("B6-grammar")
class OptimizersAlike(Claim):
    """D3PM on the grammar (24, 12, 3, 3) with 2,048 strings."""

    id: ClassVar[str] = "B6"
    title: ClassVar[str] = "D3PM on a grammar: Adam and SGD copy after about as many steps"
    paper: ClassVar[str] = "(24, 12, 3, 3), P = 2,048, each at its largest stable rate: the curves nearly coincide"
    criterion: ClassVar[str] = (
        "at the largest rates that converge, the median τ_mem of SGD, without and with momentum 0.9, is within a "
        "factor of 2 of Adam's; undecided where a run at such a rate diverges"
    )
    revised: ClassVar[str] = (
        "the criterion is the same, its runs are shorter: they end at 25% copies instead of 50%, with evaluations "
        "every 8,192 steps, after a first set was lost at step 216,039, where 41 to 68% of the samples were copies"
    )
    figures: ClassVar[tuple[str, ...]] = ("p2-fig15",)
    grids: ClassVar[tuple[str, ...]] = ("rhm-optimizers",)

    def judge(self, records: Records) -> Judgement:
        if not OPTIMIZERS:
            return not_run("the largest stable rates have not been searched for (studies/stable_rates.py)")
        found = optimizer_runs(records)
        if len(found) < len(OPTIMIZERS):
            missing = ", ".join(name for name in OPTIMIZERS if name not in found)
            return not_run(f"the grammar (24, 12, 3, 3) with 2,048 strings: {missing}")
        memory = {name: median_of([interval_of(one.memory) for one in runs]) for name, runs in found.items()}
        ratios = {name: one / memory["Adam"] for name, one in memory.items() if name != "Adam"}
        lost = sum(diverged(one) for runs in runs_at_rates(records).values() for one in runs)
        answer = all_of([is_within(ratio, 1 / ALIKE, ALIKE) for ratio in ratios.values()])
        words = [f"{name}: τ_mem {one}" for name, one in memory.items()]
        words += [f"{name} / Adam {ratio.times()}" for name, ratio in ratios.items()]
        if lost:
            answer, words = "undecided", [*words, f"{lost} runs diverged"]
        values: dict[str, Any] = {"tau_mem": plain(memory), "ratios": plain(ratios), "diverged": lost}
        return Judgement.of(answer, "; ".join(words), seeds_of(found), values)


def optimizer_runs(records: Records) -> dict[str, list[GrammarRun]]:
    """The runs of every optimizer that has some, at its rate; none that diverged."""
    chosen = {name: stable(runs) for name, runs in runs_at_rates(records).items()}
    return {name: [GrammarRun(one) for one in runs] for name, runs in chosen.items() if len(runs)}


def runs_at_rates(records: Records) -> dict[str, Records]:
    """The runs of every optimizer at its rate, with as many strings and channels as planned."""
    scale = records.scale
    size: dict[str, Any] = {"data__n": scale.copied_sizes((STRINGS,)), "model__width": scale.width or WIDTH}
    same = records.baseline(GRAMMAR, (*VARIED, *OPTIMIZER), **size)
    return {
        name: same.where(**{key.replace(".", "__"): value for key, value in settings.items()})
        for name, settings in OPTIMIZERS.items()
    }


def seeds_of(found: dict[str, list[GrammarRun]]) -> Seeds:
    """The seeds that every optimizer has."""
    return fewest(Records(one.record for one in runs).seeds for runs in found.values())


def plain(found: dict[str, Interval]) -> dict[str, Any]:
    return {name: one.as_json() for name, one in found.items()}
