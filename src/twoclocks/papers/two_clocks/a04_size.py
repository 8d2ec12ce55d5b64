"""Claim A4: τ_rule hardly depends on the number of training samples (P1 §3, Fig. 2D, 2G)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, all_of, not_run
from twoclocks.papers.intervals import is_within, largest_of, spread_of
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.parity import (
    Point,
    eightfold,
    listed,
    points,
    points_to_rule,
    rule_onset,
    seeds_of,
    with_enough_seeds,
)
from twoclocks.papers.two_clocks.runs import DIT, GPT

GROUPS = (2, 3)
FACTOR = 2.0


class RuleBySize(Claim):
    """Median τ_rule over seeds, at every N but those at which copying came first.

    A rule that was not learned, though the run went on, is later than its end: that can refute the claim.
    """

    id: ClassVar[str] = "A4"
    title: ClassVar[str] = "τ_rule hardly depends on N"
    criterion: ClassVar[str] = (
        "the median τ_rule differs by less than a factor of 2 over every 8-fold range of N, at G = 2 and at G = 3; N "
        "at which copying came first are left out, as in the paper"
    )
    revised: ClassVar[str] = (
        "an N at which the rule is not learned though the run went on counts, and can refute; before, it was left "
        "out, and the claim could not see it"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig2", "fig8")
    preset: ClassVar[str]

    def judge(self, records: Records) -> Judgement:
        chosen = records.baseline(self.preset).where(rule__group=GROUPS)
        first = [str(one) for one in points(chosen).values() if one.verdicts == {"empty"}]
        return with_enough_seeds(points_to_rule(chosen), lambda there: self.judged(there, first), rule_onset)

    def judged(self, there: Mapping[tuple[int, int], Point], first: list[str]) -> Judgement:
        """``first``: where copying came first."""
        answers: list[Answer] = []
        words, used, values = [], [], dict[str, Any]()
        for group in GROUPS:
            told = [one for (g, _), one in there.items() if g == group and one.verdicts != {"empty"}]
            ranges = eightfold(told)
            if not ranges:
                answers.append("undecided")
                words.append(f"G = {group}: no 8-fold range (there: N {listed(one.n for one in told)})")
                continue
            spreads = [spread_of([one.rule for one in part]) for part in ranges]
            answers += [is_within(one, 0, FACTOR) for one in spreads]
            used += [one for part in ranges for one in part]
            words.append(
                f"G = {group}: {largest_of(spreads).times()} within 8-fold ranges of N {told[0].n:,}–{told[-1].n:,}"
            )
            values[str(group)] = {str(one.n): one.rule.as_json() for one in told}
        if not used:
            return not_run(f"{self.preset} at G = 2 and 3 over an 8-fold range of N, each beyond τ_rule")
        words += [f"left out, copying came first: {'; '.join(first)}"] if first else []
        seeds = seeds_of(used, rule_onset)
        return Judgement.of(all_of(answers), "; ".join(words), seeds, values)


@CLAIMS.register("A4-dit")
class DiTRuleBySize(RuleBySize):
    """DiT-mini."""

    paper: ClassVar[str] = "DiT-mini: indistinguishable at G = 2, slightly later with N at G = 3"
    grids: ClassVar[tuple[str, ...]] = ("calibration", "calibration-memory", "dit-rule")
    preset: ClassVar[str] = DIT


@CLAIMS.register("A4-gpt")
class GPTRuleBySize(RuleBySize):
    """GPT-mini."""

    paper: ClassVar[str] = "both kinds of models: τ_rule is set by the rule, τ_mem by N (Discussion, Fig. 20)"
    figures: ClassVar[tuple[str, ...]] = ("fig20",)
    grids: ClassVar[tuple[str, ...]] = ("gpt-law", "gpt-groups")
    preset: ClassVar[str] = GPT
