"""View ``productions``: do valid strings use the productions of their grammar as true samples do? (P2 Fig. 14)

A model of the rule that prefers some productions, or lets the choice at one node depend on that at another,
generates valid strings and still not the distribution that it was trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import chdtrc
from torch import Tensor

from twoclocks.clocks.window import Clocks
from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.core.seeds import numpy_stream
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.dissection.truth import FEWEST, Truth, truth_of, without
from twoclocks.dissection.view import VIEWS, Arrays, Info, Probe, View, plain
from twoclocks.rules.base import RULES
from twoclocks.rules.rhm import RandomHierarchy
from twoclocks.rules.usage import nodes_used, production_count, usage_counts, usage_moments
from twoclocks.runs.settings import RunSettings

MOST = 2048  # productions of which all pairs are compared
LEVEL = 0.01  # significance level of the tests: over all layers, and over both statistics of the pairs
PAIRS = ("root_mean_square", "largest")


@dataclass(frozen=True)
class Fit:
    """How well the strings of one evaluation agree with as many true ones; empty where they are too few."""

    number: int  # of strings
    squares: tuple[float, ...] = ()  # χ² of the usage in each layer
    freedoms: tuple[int, ...] = ()  # its degrees of freedom, 0 where the grammar leaves no choice
    pairs: tuple[float, ...] = ()  # deviations of covariances in units of noise: root mean square and largest
    reference: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (2, sets): the same for sets of true strings

    @property
    def ratios(self) -> list[float]:
        """χ²/dof of each layer; its mean is 1 for true samples."""
        return [s / f if f else 1.0 for s, f in zip(self.squares, self.freedoms, strict=True)]

    @property
    def layer_chances(self) -> list[float]:
        """p-value of the χ² of each layer."""
        return [float(chdtrc(f, s)) if f else 1.0 for s, f in zip(self.squares, self.freedoms, strict=True)]

    @property
    def pair_chances(self) -> list[float]:
        """p-values of root mean square and largest deviation, from the sets of true strings."""
        both = zip(self.pairs, self.reference, strict=True)
        return [float(1 + (row >= value).sum()) / (self.reference.shape[1] + 1) for value, row in both]

    @property
    def tested(self) -> bool:
        """Whether there were enough strings."""
        return bool(self.squares)

    @property
    def usage_deviates(self) -> bool:
        return any(chance <= LEVEL / len(self.squares) for chance in self.layer_chances)

    @property
    def pairs_deviate(self) -> bool:
        return any(chance <= LEVEL / len(PAIRS) for chance in self.pair_chances)

    def as_json(self) -> dict[str, Any]:
        if not self.tested:
            return {"strings": self.number}
        return {
            "strings": self.number,
            "chi2_per_dof": self.ratios,
            "dof": list(self.freedoms),
            "p": self.layer_chances,
            "covariance": dict(zip(PAIRS, self.pairs, strict=True)),
            "covariance_p": dict(zip(PAIRS, self.pair_chances, strict=True)),
        }


@dataclass(frozen=True)
class ProductionsInfo(Info):
    layers: int
    names: tuple[str, ...]  # of all productions, layer by layer
    only_new: bool
    samples: int  # generated at every evaluation
    truth: Truth
    usage: Floats  # (steps, productions): mean number of uses per string
    fits: tuple[Fit, ...]  # one per step
    early: int  # index of the evaluation that is shown: the last before τ_mem, the last one, or a chosen one
    deviations: Floats  # (productions, productions): of covariances there, in units of sampling noise

    @property
    def width(self) -> int:
        """Number of productions per layer."""
        return len(self.names) // self.layers

    def band(self) -> Floats:
        """Standard deviation (productions,) of the usage of true strings, as many as there are at ``early``."""
        spread: Floats = np.sqrt(np.diag(self.truth.covariance) / max(self.fits[self.early].number, 1))
        return spread

    def sentences(self) -> list[str]:
        found = list(self.sentences_at(self.early))
        return found if self.early == len(self.steps) - 1 else [*found, *self.sentences_at(len(self.steps) - 1)]

    def sentences_at(self, at: int) -> Iterator[str]:
        fit = self.fits[at]
        late = at == len(self.steps) - 1
        when = "the last evaluation" if late else "the last evaluation before τ_mem"
        what = "valid and new strings" if self.only_new else "valid strings"
        begin = f"At step {self.steps[at]:,}, {when}, {fit.number:,} of {self.samples:,} samples are {what}"
        if not fit.tested:
            yield f"{begin}: too few to test how they use productions (at least {FEWEST})."
            return
        yield f"{begin}."
        yield from self.layer_sentences(at)
        ranges = [f"{low:.2f} to {high:.2f}" for low, high in np.quantile(fit.reference, (0.025, 0.975), axis=1).T]
        different = "choices at different nodes are not those of true samples"
        yield (
            f"Covariances between productions deviate from the exact ones by {fit.pairs[0]:.2f} standard errors (root "
            f"mean square; true samples of this number: {ranges[0]}) and by {fit.pairs[1]:.2f} at most "
            f"({ranges[1]}): {different if fit.pairs_deviate else 'the same as for true samples'}."
        )

    def layer_sentences(self, at: int) -> Iterator[str]:
        fit = self.fits[at]
        for layer, (ratio, chance) in enumerate(zip(fit.ratios, fit.layer_chances, strict=True), start=1):
            begin, numbers = f"Productions of layer {layer} are", f"χ²/dof = {ratio:.2f}, p = {chance:.2g}"
            if not fit.freedoms[layer - 1]:
                yield f"{begin} all determined by the grammar."
            elif chance > LEVEL / self.layers:
                yield f"{begin} used as often as the grammar requires, up to sampling noise ({numbers})."
            else:
                name, times = self.largest_deviation(at, layer)
                yield (
                    f"{begin} not used as often as the grammar requires ({numbers}); the largest deviation is {name}, "
                    f"used {times:.2f} times as often as expected."
                )

    def largest_deviation(self, at: int, layer: int) -> tuple[str, float]:
        """The production of a layer with the largest deviation in standard errors, and used / expected."""
        chosen = slice((layer - 1) * self.width, layer * self.width)
        expected, used = self.truth.mean[chosen], self.usage[at, chosen]
        noise = np.sqrt(np.diag(self.truth.covariance)[chosen])
        off = np.divide(np.abs(used - expected), noise, out=np.zeros_like(noise), where=noise > 0)
        worst = int(off.argmax())
        return self.names[chosen][worst], float(used[worst] / expected[worst])

    def numbers(self) -> dict[str, Any]:
        return {
            "only_new": self.only_new,
            "early_stop": int(self.steps[self.early]),
            "productions": [
                {"layer": number // self.width + 1, "production": name, "expected": float(self.truth.mean[number])}
                for number, name in enumerate(self.names)
            ],
            "usage": [plain(row) for row in self.usage],
            "fits": [fit.as_json() for fit in self.fits],
        }


@VIEWS.register("productions")
@dataclass(frozen=True, kw_only=True)
class Productions(View):
    """Whether valid strings of a grammar use its productions as often, and as independently, as true samples do."""

    reads: ClassVar[Reads] = "samples"
    interprets: ClassVar[tuple[str, ...]] = ("step",)
    only_new: bool = setting(False, "count only valid strings that are not copies of training samples")
    sets: int = setting(
        200, "sets of true samples from which the noise of covariances is estimated", at_least=200, at_most=10**5
    )
    step: int | None = setting(
        None, "show the evaluation nearest to this step; none: the last before τ_mem", at_least=0
    )

    def refusal(self, settings: RunSettings) -> str | None:
        rule = settings.rule
        if not isinstance(rule, RandomHierarchy):
            return f"rule {RULES.name_of(rule)} has no productions; this view needs a grammar (rhm)"
        if production_count(rule) > MOST:
            return (
                f"the grammar has {production_count(rule):,} productions; all pairs of more than {MOST:,} are too many"
            )
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
        places = np.array(steps)
        at = early_stop(places, subject.clocks) if self.step is None else int(np.abs(places - self.step).argmin())
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
        """Counts (n, productions) of the true strings of one set, which depends on its number alone."""
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
    """Names such as ``5 → 3 7``, a symbol and the string that replaces it; layer by layer."""
    return tuple(
        f"{symbol} → {' '.join(map(str, string))}"
        for table in rule.productions
        for symbol, strings in enumerate(table.tolist())
        for string in strings
    )


def early_stop(steps: Floats, clocks: Clocks | None) -> int:
    """Index of the last step before the interval of τ_mem; of the last step where memory has not begun."""
    if clocks is None or not clocks.memory.seen:
        return len(steps) - 1
    before = np.flatnonzero(steps <= clocks.memory.lower)
    return int(before[-1]) if len(before) else len(steps) - 1


def mean_usage(counts: Tensor) -> Floats:
    """Mean number of uses per string of each production (productions,); NaN where there is no string."""
    return counts.double().mean(dim=0).numpy() if len(counts) else np.full(counts.shape[1], np.nan)


def fit_of(truth: Truth, counts: Tensor, layers: int) -> Fit:
    """Test the strings of one evaluation against true ones."""
    number = len(counts)
    if number < FEWEST:
        return Fit(number)
    width = len(truth.mean) // layers
    usage = mean_usage(counts)
    found = [truth.fit(usage, number, slice(k * width, (k + 1) * width)) for k in range(layers)]
    rms, largest = truth.summary(truth.deviations(counts))
    return Fit(
        number=number,
        squares=tuple(square for square, _ in found),
        freedoms=tuple(freedom for _, freedom in found),
        pairs=(rms, largest),
        reference=truth.reference_at(number),
    )
