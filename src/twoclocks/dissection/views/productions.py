"""Are valid strings true samples of their grammar? How often, and together with which others, productions are used.

P2 Fig. 14. A model of the rule that prefers some productions, or lets the choice at one node depend on that at another,
generates valid strings and is still not the distribution it was trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from twoclocks.clocks.window import Clocks
from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.core.seeds import numpy_stream
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.dissection.truth import FEWEST, Truth, truth_of, without
from twoclocks.dissection.view import VIEWS, Arrays, Probe, View
from twoclocks.dissection.views.productions_info import Fit, ProductionsInfo
from twoclocks.rules.base import RULES
from twoclocks.rules.rhm import RandomHierarchy
from twoclocks.rules.usage import nodes_used, production_count, usage_counts, usage_moments
from twoclocks.runs.settings import RunSettings

MOST = 2048  # productions, whose pairs are looked at one by one


@VIEWS.register("productions")
@dataclass(frozen=True, kw_only=True)
class Productions(View):
    """Whether valid strings of a grammar use its productions as often, and as independently, as true samples do."""

    reads: ClassVar[Reads] = "samples"
    only_new: bool = setting(False, "count only valid strings that are no copies of training samples")
    sets: int = setting(200, "sets of true samples from which the noise of covariances is known", at_least=200)

    def refusal(self, settings: RunSettings) -> str | None:
        rule = settings.rule
        if not isinstance(rule, RandomHierarchy):
            return f"rule {RULES.name_of(rule)} has no productions; it is made for grammars (rhm)"
        if production_count(rule) > MOST:
            return f"{production_count(rule):,} productions have too many pairs to compare; use at most {MOST:,}"
        if self.only_new and settings.data.n >= rule.count():
            return "the training set holds every valid string, so none is new; leave only_new out"
        return None

    def prepare(self, subject: Subject) -> Probe:
        return ProductionsProbe(subject, self)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> ProductionsInfo:
        rule, truth = grammar(subject), Truth(**constants)
        counts = [
            usage_counts(rule, torch.from_numpy(used[counted]))
            for used, counted in zip(measurements["used"], measurements["counted"], strict=True)
        ]
        at = early_stop(np.array(steps), subject.clocks)
        enough = len(counts[at]) >= FEWEST
        return ProductionsInfo(
            steps=np.array(steps, dtype=np.int64),
            clocks=subject.clocks,
            layers=rule.depth,
            names=production_names(rule),
            only_new=self.only_new,
            samples=measurements["counted"].shape[1],
            truth=truth,
            usage=np.array([mean_usage(one) for one in counts]),
            fits=tuple(fit_of(truth, one, rule.depth) for one in counts),
            early=at,
            deviations=truth.deviations(counts[at]) if enough else np.zeros_like(truth.noise),
        )


class ProductionsProbe(Probe):
    def __init__(self, subject: Subject, view: Productions) -> None:
        self.subject, self.view, self.rule = subject, view, grammar(subject)

    def constants(self) -> Arrays:
        chosen = self.subject.settings.evaluation
        most = max(FEWEST, min(chosen.samples, chosen.keep_samples))
        moments = usage_moments(self.rule)
        if self.view.only_new:
            known = usage_counts(self.rule, nodes_used(self.rule, self.subject.train)).double().numpy()
            moments = without(moments, self.rule.count(), known)
        return dict(vars(truth_of(moments, self.draw, most, self.view.sets)))

    def draw(self, n: int, number: int) -> Tensor:
        """Counts (n, productions) of true strings; a set is the same whenever it is asked for."""
        rng = numpy_stream(self.subject.settings.evaluation.seed, "true strings", number)
        found: list[Tensor] = []
        while sum(map(len, found)) < n:
            rows = torch.from_numpy(self.rule.draw(n, rng)).to(self.subject.device)
            found.append(rows[~self.subject.evaluator.copies.found(rows)] if self.view.only_new else rows)
        return usage_counts(self.rule, nodes_used(self.rule, torch.cat(found)[:n]))

    def measure(self, step: int) -> Arrays:
        decoded, outcome = self.subject.judged(step)
        counted = outcome.new if self.view.only_new else outcome.valid
        used = nodes_used(self.rule, decoded.symbols).cpu().numpy().astype(np.int32)
        return {"used": used, "counted": counted.cpu().numpy()}


def grammar(subject: Subject) -> RandomHierarchy:
    assert isinstance(subject.rule, RandomHierarchy)
    return subject.rule


def production_names(rule: RandomHierarchy) -> tuple[str, ...]:
    """Such as ``5 → 3 7``, a symbol and the string that takes its place; layer by layer."""
    return tuple(
        f"{symbol} → {' '.join(map(str, string))}"
        for table in rule.productions
        for symbol, strings in enumerate(table.tolist())
        for string in strings
    )


def early_stop(steps: Floats, clocks: Clocks | None) -> int:
    """Which moment is the last that lies surely before τ_mem; the last of all where memory has not begun."""
    if clocks is None or not clocks.memory.seen:
        return len(steps) - 1
    before = np.flatnonzero(steps <= clocks.memory.lower)
    return int(before[-1]) if len(before) else len(steps) - 1


def mean_usage(counts: Tensor) -> Floats:
    """How often a string uses each production (productions,); NaN where there is no string."""
    return counts.double().mean(dim=0).numpy() if len(counts) else np.full(counts.shape[1], np.nan)


def fit_of(truth: Truth, counts: Tensor, layers: int) -> Fit:
    """How well the strings of one moment agree with true ones."""
    number = len(counts)
    if number < FEWEST:
        return Fit(number)
    width = len(truth.mean) // layers
    usage = mean_usage(counts)
    found = [truth.fit(usage, number, slice(k * width, (k + 1) * width)) for k in range(layers)]
    rms, largest = truth.summary(truth.deviations(counts))
    usual = truth.usual_at(number)
    return Fit(
        number=number,
        squares=tuple(square for square, _ in found),
        freedoms=tuple(freedom for _, freedom in found),
        pairs=(rms, largest),
        usual=usual,
    )
