"""Claim A2: τ_rule grows about tenfold per bit of a parity group (P1 §3, Fig. 2C)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

from twoclocks.papers.claim import CLAIMS, Claim, Judgement, all_of, not_run
from twoclocks.papers.intervals import Interval, is_within
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.parity import PAPER_N, Point, Points, points, rule_onset, seeds_of, with_enough_seeds
from twoclocks.papers.two_clocks.runs import DIT, GPT

GROUPS = (2, 3, 4)
LEAST, MOST = 5.0, 20.0


@CLAIMS.register("A2")
class RuleByGroup(Claim):
    """DiT-mini; P1 says of GPT only that a larger group delays the rule, so its ratios are reported, not judged."""

    id: ClassVar[str] = "A2"
    title: ClassVar[str] = "τ_rule grows about tenfold per unit of G"
    paper: ClassVar[str] = "DiT-mini: about ×10 from G = 2 to 3 and from 3 to 4"
    criterion: ClassVar[str] = "the ratio of the median τ_rule over seeds is 5 to 20, from G = 2 to 3 and from 3 to 4"
    figures: ClassVar[tuple[str, ...]] = ("fig2",)
    grids: ClassVar[tuple[str, ...]] = ("calibration", "counting", "dit-rule")

    def judge(self, records: Records) -> Judgement:
        gpt = same_size(points(records.baseline(GPT)))
        return with_enough_seeds(points(records.baseline(DIT)), lambda found: self.judged(found, gpt), rule_onset)

    def judged(self, every: Mapping[tuple[int, int], Point], other: tuple[int, Points] | None) -> Judgement:
        found = same_size(every)
        if found is None:
            return not_run(f"{DIT} at G = 2, 3 and 4 with the same N")
        n, chosen = found
        ratios = steps_up(chosen, n)
        seeds = seeds_of(chosen.values(), rule_onset)
        clocks = ", ".join(f"{chosen[group, n].rule} at G = {group}" for group in GROUPS)
        measured = f"τ_rule {clocks} (N = {n:,}): {ratios[0].times()} and {ratios[1].times()}"
        values = {"n": n, "ratios": [one.as_json() for one in ratios]}
        values["rule"] = {str(group): chosen[group, n].rule.as_json() for group in GROUPS}
        if other is not None:
            gpt = steps_up(other[1], other[0])
            values["gpt"] = {"n": other[0], "ratios": [one.as_json() for one in gpt]}
            measured += f"; GPT-mini, not judged: {gpt[0].times()} and {gpt[1].times()} (N = {other[0]:,})"
        answers = [is_within(one, LEAST, MOST) for one in ratios]
        return Judgement.of(all_of(answers), measured, seeds, values)


def same_size(found: Mapping[tuple[int, int], Point]) -> tuple[int, Points] | None:
    """The N at which all three groups were run, and its points: the paper's N, or else the largest."""
    sizes = {n for _, n in found if all((group, n) in found for group in GROUPS)}
    if not sizes:
        return None
    n = PAPER_N if PAPER_N in sizes else max(sizes)
    return n, {(group, n): found[group, n] for group in GROUPS}


def steps_up(found: Points, n: int) -> list[Interval]:
    """Ratios of the median τ_rule from each group size to the next."""
    return [found[big, n].rule / found[small, n].rule for small, big in pairwise(GROUPS)]
