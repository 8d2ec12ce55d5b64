"""Claim B6 on optimizers: with Adam, one hidden layer keeps τ_mem ∝ P, with another constant (P2 App. G, Fig. 19)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from twoclocks.clocks.power import Power, power_difference
from twoclocks.core.errors import UserError
from twoclocks.papers.claim import CLAIMS, Claim, Judgement, all_of, not_run
from twoclocks.papers.early_stopping.b06_kernel import NARROW, exponent_answer, values_of
from twoclocks.papers.early_stopping.kernel_runs import SIZES, AxisRuns
from twoclocks.papers.early_stopping.optimizer_runs import (
    STABLE_RATES,
    exploded_runs,
    small_rate_runs,
    stable_rate_runs,
)
from twoclocks.papers.intervals import Interval, is_exponent
from twoclocks.papers.records import Records
from twoclocks.papers.scales import Scale
from twoclocks.papers.seeds import fewest

NAMES = {"sgd": "SGD", "adam": "Adam"}


class SamePower(Claim):
    """Adam's power of P beside that of gradient descent, over the P that both have."""

    id: ClassVar[str] = "B6"
    paper: ClassVar[str] = "NTK limit: Adam and SGD have the same linear scaling with P, and differ by a constant"
    figures: ClassVar[tuple[str, ...]] = ("p2-fig19",)
    rates: ClassVar[str]

    @abstractmethod
    def runs(self, records: Records, optimizer: str) -> AxisRuns:
        """The runs of one optimizer."""

    @abstractmethod
    def planned(self, scale: Scale) -> tuple[int, ...]:
        """The P at which both optimizers are to be run."""

    def exploded(self, records: Records) -> int:
        """How many runs had a rate that was too large after all."""
        return 0

    def judge(self, records: Records) -> Judgement:
        plain, adam = common_sizes(self.runs(records, "sgd"), self.runs(records, "adam"))
        difference = difference_of(plain, adam)
        if difference is None:
            return not_run(f"one hidden layer with Adam and with SGD at three or more P, {self.rates}")
        words = (
            f"Adam's power is {difference.power:+.2f} ({difference.interval[0]:+.2f} to {difference.interval[1]:+.2f})"
        )
        words = f"{words} beside SGD's: τ ∝ P^{adam.power()} and P^{plain.power()}, {rates_in_words(plain, adam)}"
        values: dict[str, Any] = {"difference": difference.as_json(), "sgd": values_of(plain), "adam": values_of(adam)}
        answer = is_exponent(Interval(*difference.interval), 0.0, NARROW)
        if answer == "yes":  # the same law, and a linear one
            answer = all_of([answer, exponent_answer(plain, 1.0)])
        if lacking := [n for n in self.planned(records.scale) if n not in plain.places]:
            answer, words = "undecided", f"{words}. Missing: P = {', '.join(f'{n:,}' for n in lacking)}"
        if lost := self.exploded(records):
            answer, words = "undecided", f"{words}; {lost} runs exploded"
        return Judgement.of(answer, words, fewest((plain.seeds, adam.seeds)), values)


def criterion_of(rates: str) -> str:
    return (
        f"{rates}, over the P that both have: the 95% interval of the difference between Adam's and SGD's powers of P "
        "is narrower than ±0.15 and holds 0, or lies within ±0.15, and SGD's is 1 as in B6-size; refuted where the "
        "difference lies outside; undecided where a run explodes or a planned P is missing"
    )


@CLAIMS.register("B6-adam")
class SamePowerAtSmallRates(SamePower):
    """Both follow the gradient flow: steps are small."""

    title: ClassVar[str] = "One hidden layer: Adam changes a constant, at small rates"
    criterion: ClassVar[str] = criterion_of("at one small rate for all P (SGD 10, Adam 0.1)")
    grids: ClassVar[tuple[str, ...]] = ("kernel-size", "kernel-adam")
    rates: ClassVar[str] = "at small rates"

    def runs(self, records: Records, optimizer: str) -> AxisRuns:
        return small_rate_runs(records, optimizer)

    def planned(self, scale: Scale) -> tuple[int, ...]:
        return scale.sizes(SIZES)


@CLAIMS.register("B6-stable")
class SamePowerAtLargestRates(SamePower):
    """As P2 compares them."""

    title: ClassVar[str] = "One hidden layer: Adam changes a constant, at the largest stable rates"
    criterion: ClassVar[str] = criterion_of("each at the largest rate that converges at this P")
    grids: ClassVar[tuple[str, ...]] = ("kernel-stable",)
    rates: ClassVar[str] = "at their largest stable rates"

    def runs(self, records: Records, optimizer: str) -> AxisRuns:
        return stable_rate_runs(records, optimizer)

    def planned(self, scale: Scale) -> tuple[int, ...]:
        return tuple(STABLE_RATES["sgd"])

    def exploded(self, records: Records) -> int:
        return sum(exploded_runs(records, optimizer, rates) for optimizer, rates in STABLE_RATES.items())


def common_sizes(first: AxisRuns, second: AxisRuns) -> tuple[AxisRuns, AxisRuns]:
    """The runs at the P that both have."""
    both = set(first.places) & set(second.places)
    kept = [tuple(one for one in runs.records if one.n in both) for runs in (first, second)]
    return AxisRuns("size", kept[0]), AxisRuns("size", kept[1])


def difference_of(first: AxisRuns, second: AxisRuns) -> Power | None:
    """The second power minus the first; None if the onsets do not identify it."""
    try:
        return power_difference((first.places, first.onsets()), (second.places, second.onsets()))
    except UserError:
        return None


def rates_in_words(*every: AxisRuns) -> str:
    """Such as ``rates 10 (SGD) and 0.1 (Adam)``."""
    found = []
    for runs in every:
        rates = sorted({float(one.value("training.learning_rate")) for one in runs.records})
        name = NAMES[runs.records[0].value("training.optimizer")]
        found.append(f"{'–'.join(f'{rate:.3g}' for rate in dict.fromkeys((rates[0], rates[-1])))} ({name})")
    return f"rates {' and '.join(found)}"
