"""Claim A17: counting rules are learned as fast as pairs of bits, whatever the count (P1 §5.2, C.6, Fig. 21)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from twoclocks.papers.as_printed import printed_clocks, stable
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, all_of, not_run, verdict_of
from twoclocks.papers.intervals import Interval, interval_of, is_below, range_of, spread_of
from twoclocks.papers.records import Record, Records
from twoclocks.papers.seeds import fewest
from twoclocks.papers.two_clocks.parity import PAPER_N, at_papers_n
from twoclocks.papers.two_clocks.runs import DIT
from twoclocks.runs.columns import Weights

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LISTED = 0.9  # the paper's threshold, at which all onsets are told
PAIRS, TRIPLES = "parity G = 2", "parity G = 3"
FIXED, VARIABLE = ("exact_k", "row_k"), ("row_variable_k", "global_k")
MUCH = 0.5  # "much smaller": less than half of the step from G = 2 to 3, in the logarithm


@dataclass(frozen=True)
class Comparison:
    """τ_rule of all rules at one threshold, each as a range over seeds."""

    spans: Mapping[str, Interval]

    def fixed(self, *kinds: str) -> list[Interval]:
        return [span for name, span in self.spans.items() if name.startswith(kinds)]

    @property
    def spread(self) -> Interval:
        """The largest quotient of two onsets, over all K and pairs of bits."""
        return spread_of([self.spans[PAIRS], *self.fixed(*FIXED)])

    @property
    def step(self) -> Interval:
        """How much later triples are learned than pairs."""
        return self.spans[TRIPLES] / self.spans[PAIRS]

    def answers(self) -> dict[str, Answer]:
        found = {"spread over K": is_below(self.spread, self.step**MUCH)}
        rows = self.fixed("row_k")
        for name, span in self.spans.items():
            if name.startswith(VARIABLE) and rows:
                later, soon = is_below(range_of(rows), span), is_below(span, self.spans[TRIPLES])
                found[f"{name} later"] = all_of([later, soon])
        return found


@CLAIMS.register("A17")
class Counting(Claim):
    """DiT-mini on counting rules of 36 bits, beside parity of pairs and triples."""

    id: ClassVar[str] = "A17"
    title: ClassVar[str] = "Counting rules are learned as fast as pairs of bits, whatever the count"
    paper: ClassVar[str] = "exact-K and row-K learn as fast as parity with G = 2 for every K; variable K slightly later"
    criterion: ClassVar[str] = (
        "at N = 4,096, for thresholds of validity from 0.5 to 0.95, of raw and of averaged weights: the "
        "quotient of any two τ_rule of exact-K, row-K (each with two K or more) and G = 2 is below the square root of "
        "that of G = 3 to 2; rules with variable K are later than row-K with every K, and earlier than G = 3 (ranges "
        "over seeds apart); refuted where one is earlier than row-K with every K, or later than G = 3"
    )
    revised: ClassVar[str] = (
        "two K of each kind are needed, since one K says nothing about K; variable K is compared with every row-K, "
        "since it was reproduced though earlier than one of them; other N no longer decide"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig21",)
    grids: ClassVar[tuple[str, ...]] = ("counting", "counting-step", "counting-averaged")

    def judge(self, records: Records) -> Judgement:
        rules = rules_of(records)
        missing = missing_rules(rules)
        counted = [name for name in rules if name.startswith(FIXED)]
        if len(counted) < 2 or not {PAIRS, TRIPLES} <= rules.keys():
            return not_run("p1-dit-mini on parity with G = 2 and 3 and on counting rules with several K, at one N")
        averaged = averaged_runs(rules)
        weights: dict[Weights, dict[str, Records]] = {"raw": rules, **({"averaged": averaged} if averaged else {})}
        found = {(kind, level): comparison(some, level, kind) for kind, some in weights.items() for level in THRESHOLDS}
        answers = {
            f"{kind}, {level:g}: {what}": answer
            for (kind, level), one in found.items()
            for what, answer in one.answers().items()
        }
        together = all_of([*answers.values()])
        seeds = fewest(some.seeds for chosen in weights.values() for some in chosen.values())
        if (missing or not averaged) and together == "yes":
            together = "undecided"
        words = [words_of(kind, level, one) for (kind, level), one in found.items() if level in (0.5, LISTED, 0.95)]
        words += [f"missing: {', '.join(missing)}"] * bool(missing) + [
            "undecided without averaged weights: no run of every rule evaluates them"
        ] * (not averaged)
        n = rules[PAIRS][0].n
        values: dict[str, Any] = {"answers": answers, "n": n}
        values |= {f"{kind}, {level:g}": json_of(one) for (kind, level), one in found.items()}
        return at_papers_n(Judgement(verdict_of(together, seeds), "; ".join(words), seeds, values), n, records.scale)


def missing_rules(rules: Collection[str]) -> list[str]:
    """What else must be run, such as ``row_k with another K``: one K says nothing about every K.

    >>> missing_rules(["exact_k K = 9", "exact_k K = 18", "row_k K = 2", "global_k K = 2 or 3"])
    ['row_k with another K', 'row_variable_k']
    """
    count = {kind: sum(name.startswith(f"{kind} ") for name in rules) for kind in (*FIXED, *VARIABLE)}
    single = [kind for kind in FIXED if count[kind] == 1]
    return [f"{kind} with another K" if kind in single else kind for kind in count if kind in single or not count[kind]]


def rules_of(records: Records) -> dict[str, Records]:
    """The runs of every rule at one N: the paper's if it is there, else the largest of the counting rules."""
    plain = stable(records.baseline(DIT, any_rule=True))
    counting = plain.where(rule__name=(*FIXED, *VARIABLE))
    n = PAPER_N if any(one.n == PAPER_N for one in counting) else max((one.n for one in counting), default=0)
    pairs_and_triples = plain.where(rule__name="parity", rule__group=(2, 3))
    found: dict[str, list[Record]] = {}
    for one in (*pairs_and_triples.where(data__n=n), *counting.where(data__n=n)):
        found.setdefault(rule_name(one), []).append(one)
    return {name: Records(some) for name, some in sorted(found.items())}


def rule_name(record: Record) -> str:
    """Such as ``row_k K = 3``."""
    name = str(record.value("rule.name"))
    if name == "parity":
        return f"parity G = {record.value('rule.group')}"
    count = record.value("rule.k") if name in FIXED else record.value("rule.ks")
    return f"{name} K = {count if isinstance(count, int) else ' or '.join(map(str, count))}"


def comparison(rules: Mapping[str, Records], threshold: float, weights: Weights) -> Comparison:
    """τ_rule of all rules as P1 reads it, at any threshold."""
    onsets = {
        name: [printed_clocks(one, threshold, weights=weights).rule for one in some] for name, some in rules.items()
    }
    return Comparison({name: range_of(map(interval_of, some)) for name, some in onsets.items()})


def averaged_runs(rules: Mapping[str, Records]) -> dict[str, Records]:
    """Those that evaluate averaged weights beside the raw ones; none unless every rule has some."""
    found = {name: some.those(lambda one: one.run.has_averages) for name, some in rules.items()}
    return found if all(found.values()) else {}


def words_of(weights: Weights, threshold: float, one: Comparison) -> str:
    words = f"spread {one.spread.times('.2g')}, G = 2 to 3 {one.step.times('.2g')}"
    listed = ", ".join(f"{name} {span}" for name, span in one.spans.items())
    return f"{weights} weights, {threshold:g}: {words}" + (f" ({listed})" if threshold == LISTED else "")


def json_of(one: Comparison) -> dict[str, list[float | None]]:
    ranges = {**one.spans, "spread": one.spread, "step": one.step}
    return {name: span.as_json() for name, span in ranges.items()}
