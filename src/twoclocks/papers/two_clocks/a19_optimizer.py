"""Claim A19: the baseline's learning rate is the fastest; weight decay widens GPT's window up to a point (P1 C.7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from twoclocks.clocks.window import Clocks
from twoclocks.papers.as_printed import diverged, printed_clocks
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, all_of, not_run, verdict_of
from twoclocks.papers.intervals import Interval, interval_of, is_below, range_of
from twoclocks.papers.records import Records
from twoclocks.papers.seeds import fewest
from twoclocks.papers.two_clocks.runs import DIT, GPT

GROUP = 6
FEWEST = 3  # values of a sweep
NEVER = Interval(math.inf, math.inf)
NO_WINDOW = Interval(0.0, 1.0)  # in τ_mem/τ_rule


class Sweep(Claim):
    """Clocks at G = 6 over one setting of the optimizer; a base class."""

    id: ClassVar[str] = "A19"
    preset: ClassVar[str]
    swept: ClassVar[str]  # the setting that is varied

    def groups(self, records: Records) -> dict[float, Records]:
        """The runs of every value of the setting, all else being the baseline's, at the largest N."""
        chosen = records.baseline(self.preset, (self.swept,), rule__group=GROUP)
        by_size = [chosen.where(data__n=n) for n in chosen.by("data.n")]
        swept = [some for some in by_size if len(some.by(self.swept)) >= FEWEST]
        return Records(one for some in swept for one in some).of_largest_n().by(self.swept)


class FastestRate(Sweep):
    """τ_rule over learning rates."""

    swept: ClassVar[str] = "training.learning_rate"
    also: ClassVar[tuple[float, ...]] = ()  # other rates that may be the paper's baseline

    def judge(self, records: Records) -> Judgement:
        groups = self.groups(records)
        own = records.scale.cell(self.preset, {}).settings.training.learning_rate
        baseline = (own,) if records.scale.networks else (own, *self.also)  # other networks have one of their own
        if not set(baseline) & groups.keys():
            return not_run(f"{self.preset} at G = {GROUP} over at least {FEWEST} learning rates")
        spans = {rate: rule_span(some) for rate, some in groups.items()}
        answer = judge_rates(spans, baseline)
        seeds = fewest(some.seeds for some in groups.values())
        words = ", ".join(f"{rate:g}: {span}" for rate, span in spans.items())
        values = {"tau_rule": {f"{rate:g}": span.as_json() for rate, span in spans.items()}}
        return Judgement(verdict_of(answer, seeds), f"τ_rule by learning rate {words}", seeds, values)


@CLAIMS.register("A19-dit-rate")
class DiTRate(FastestRate):
    """DiT-mini."""

    title: ClassVar[str] = "DiT: the baseline's learning rate is the fastest"
    paper: ClassVar[str] = "DiT-mini at G = 6: 1e-4 gives the earliest rule onset of 1e-5 … 3e-3"
    criterion: ClassVar[str] = "τ_rule at 1e-4 earlier than at every other rate; a rule learned after copying is none"
    figures: ClassVar[tuple[str, ...]] = ("fig24",)
    grids: ClassVar[tuple[str, ...]] = ("dit-optimizer",)
    preset: ClassVar[str] = DIT


@CLAIMS.register("A19-gpt-rate")
class GPTRate(FastestRate):
    """GPT-mini, whose baseline is not printed: the text speaks of one, the caption of two."""

    title: ClassVar[str] = "GPT: the baseline's learning rate is the fastest"
    paper: ClassVar[str] = "GPT-mini at G = 6: the baseline is fastest; 1e-4 and 3e-4 are rapid, larger rates fail"
    criterion: ClassVar[str] = (
        "τ_rule at 1e-4 or at 3e-4 earlier than at every rate but these two; a rule learned after copying is none"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig26",)
    grids: ClassVar[tuple[str, ...]] = ("gpt-optimizer", "gpt-optimizer-seeds")
    preset: ClassVar[str] = GPT
    also: ClassVar[tuple[float, ...]] = (3e-4,)


@CLAIMS.register("A19-gpt-decay")
class WideningDecay(Sweep):
    """The window of GPT-mini over weight decays."""

    title: ClassVar[str] = "GPT: weight decay widens the window up to a point"
    paper: ClassVar[str] = "a moderate weight decay maximizes the gap of τ_rule and τ_mem; very large ones reduce it"
    criterion: ClassVar[str] = (
        "τ_mem/τ_rule at some weight decay between 0 and the largest is larger than at both ends (ranges over seeds "
        "apart); a run that copies before it learns the rule, or diverges, has no window; one that ended before both "
        "clocks may have any"
    )
    revised: ClassVar[str] = (
        "a run that ended before both clocks may have any window; before, it had none, so that short runs at both "
        "ends reproduced the claim"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig27",)
    grids: ClassVar[tuple[str, ...]] = ("gpt-optimizer", "gpt-optimizer-seeds")
    preset: ClassVar[str] = GPT
    swept: ClassVar[str] = "training.weight_decay"

    def judge(self, records: Records) -> Judgement:
        groups = self.groups(records)
        if 0.0 not in groups:
            return not_run(f"{self.preset} at G = {GROUP} over at least {FEWEST} weight decays, of which one is 0")
        spans = {decay: window_span(some) for decay, some in groups.items()}
        seeds = fewest(some.seeds for some in groups.values())
        words = ", ".join(f"{decay:g}: {span:.2g}" for decay, span in spans.items())
        values = {"window": {f"{decay:g}": span.as_json() for decay, span in spans.items()}}
        answer = has_interior_maximum([*spans.values()])
        return Judgement(verdict_of(answer, seeds), f"τ_mem/τ_rule by weight decay {words}", seeds, values)


def rule_span(found: Records) -> Interval:
    """The range of τ_rule over seeds; a rule that is not learned before copying begins never is (P1 C.7).

    A run that diverged has not learned it either: no model is left that could have.
    """
    return range_of(NEVER if diverged(one) else one_rule(printed_clocks(one)) for one in found)


def judge_rates(spans: Mapping[float, Interval], baseline: tuple[float, ...]) -> Answer:
    """Whether one of the baseline's rates is earlier than every other rate."""
    others = [span for rate, span in spans.items() if rate not in baseline]
    found = [all_of([is_below(spans[rate], span) for span in others]) for rate in baseline if rate in spans]
    return "yes" if "yes" in found else "no" if set(found) == {"no"} else "undecided"


def one_rule(clocks: Clocks) -> Interval:
    return NEVER if clocks.verdict == "empty" else interval_of(clocks.rule)


def window_span(found: Records) -> Interval:
    """The range of τ_mem/τ_rule over seeds, without an end where copying was not seen; at most 1: no window."""
    return range_of(NO_WINDOW if diverged(one) else one_window(printed_clocks(one)) for one in found)


def one_window(clocks: Clocks) -> Interval:
    """τ_mem/τ_rule of one run; any number where it ended before both clocks."""
    if clocks.verdict == "empty":
        return NO_WINDOW
    return interval_of(clocks.memory) / interval_of(clocks.rule)


def has_interior_maximum(spans: list[Interval]) -> Answer:
    """Whether a value inside is larger than those at both ends; no where an end is larger than all inside."""
    first, *inside, last = spans
    if any(is_below(first, one) == is_below(last, one) == "yes" for one in inside):
        return "yes"
    ends_above = [all(is_below(one, end) == "yes" for one in inside) for end in (first, last)]
    return "no" if any(ends_above) else "undecided"
