"""Effects of interventions on a clock, from runs on the same seeds with and without them.

Every seed is a block: ln τ = block + effect + scatter · e, with e normal. Blocks take up what runs of one seed have in
common (data, initial weights), so an effect is measured within seeds. All runs share one scatter, so three seeds
suffice for many interventions. Where the seeds of one intervention differ more than that, its own scatter counts as
well. Times are intervals, some of them censored; effects are ratios τ / τ of the base.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtr

from twoclocks.clocks.regression import Regression
from twoclocks.core.errors import UserError

LEVEL = 0.95
FEWEST_SEEDS = 2  # one seed says nothing about the scatter
UNEVEN = 1.7  # times the shared scatter: three equal seeds differ so much by chance in one of twenty interventions


@dataclass(frozen=True)
class Span:
    """A time that is known to lie between two others, in any unit; ``upper`` may be infinite, ``lower`` 0."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Effect:
    """By which factor an intervention changes a time, with its interval and two p-values."""

    treatment: str
    ratio: float  # inf or 0: all runs with it, or all of the base, are censored
    interval: tuple[float, float]  # 95%, of this effect alone
    p: float  # that there is no effect
    adjusted: float  # the same among all effects that were asked about (Holm)
    runs: int
    censored: int  # of them
    uneven: bool = False  # its seeds differ much more than those of the others

    @property
    def is_found(self) -> bool:
        """Whether there is an effect, at 95% confidence for all questions together."""
        return self.adjusted < 1 - LEVEL

    def as_json(self) -> dict[str, Any]:
        def finite(value: float) -> float | None:
            return value if math.isfinite(value) else None

        ends = [finite(end) for end in self.interval]
        counts = {"runs": self.runs, "censored": self.censored, "uneven": self.uneven}
        chances = {"p": self.p, "adjusted_p": self.adjusted, "found": self.is_found}
        return {"treatment": self.treatment, "ratio": finite(self.ratio), "interval": ends, **chances, **counts}


def fit_effects(
    blocks: Sequence[Hashable], treatments: Sequence[str | None], times: Sequence[Span]
) -> dict[str, Effect]:
    """The effect of every treatment, from one time per run; None is the base. ``adjusted`` is for these effects alone.

    >>> seeds, kinds = [0, 0, 1, 1, 2, 2], [None, "twice"] * 3
    >>> times = [Span(90, 110), Span(180, 220), Span(81, 99), Span(162, 198), Span(99, 121), Span(198, 242)]
    >>> round(fit_effects(seeds, kinds, times)["twice"].ratio, 2)
    2.0
    """
    names = list(dict.fromkeys(name for name in treatments if name is not None))
    seeds = list(dict.fromkeys(blocks))
    check(blocks, treatments, times, names, seeds)
    design = np.array(
        [
            [*(seed == block for seed in seeds), *(name == kind for name in names)]
            for block, kind in zip(blocks, treatments, strict=True)
        ],
        dtype=np.float64,
    )
    with np.errstate(divide="ignore"):
        lower, upper = np.log(np.array([(time.lower, time.upper) for time in times], dtype=np.float64)).T
    regression = Regression(design, lower, upper)
    best = regression.fit()
    # The maximum-likelihood scatter is too small by the degrees of freedom of the fit.
    scatter = math.exp(best[1][-1]) * math.sqrt(regression.uncensored / regression.degrees_of_freedom)
    base = {block: time for block, kind, time in zip(blocks, treatments, times, strict=True) if kind is None}
    found = {}
    for number, name in enumerate(names):
        column = len(seeds) + number
        pairs = [(time, base[b]) for b, kind, time in zip(blocks, treatments, times, strict=True) if kind == name]
        low, high = regression.interval(column, best, LEVEL)
        uneven, own_p = own_scatter(pairs, scatter)
        found[name] = Effect(
            treatment=name,
            ratio=estimated_ratio(pairs, float(best[1][column])),
            interval=(as_ratio(low), as_ratio(high)),
            p=max(regression.p_value(column, best), own_p if uneven else 0.0),
            adjusted=1.0,
            runs=len(pairs),
            censored=sum(not is_seen(time) for time, _ in pairs),
            uneven=uneven,
        )
    return holm(found)


def is_seen(time: Span) -> bool:
    return math.isfinite(time.upper) and time.lower > 0


def own_scatter(pairs: Sequence[tuple[Span, Span]], shared: float) -> tuple[bool, float]:
    """Whether the ratios of one intervention scatter much more than the shared scatter, and the p-value of their own.

    The p-value is that of Student's paired test, from the middles of the times that were seen.
    """
    logs = [math.log(a.lower * a.upper / (b.lower * b.upper)) / 2 for a, b in pairs if is_seen(a) and is_seen(b)]
    if len(logs) < FEWEST_SEEDS:
        return False, 0.0
    spread = float(np.std(logs, ddof=1))
    if spread <= UNEVEN * math.sqrt(2) * shared:  # a ratio has the scatter of two runs
        return False, 0.0
    distance = abs(float(np.mean(logs))) / spread * math.sqrt(len(logs))
    return True, float(2 * stdtr(len(logs) - 1, -distance))


def estimated_ratio(pairs: Sequence[tuple[Span, Span]], log: float) -> float:
    """The ratio of an estimate; inf or 0 where all times on one side are censored, so that the data give a bound only.

    Each pair is a time and that of the base.
    """
    times, bases = zip(*pairs, strict=True)
    if all(math.isinf(time.upper) for time in times) or all(base.lower <= 0 for base in bases):
        return math.inf
    if all(time.lower <= 0 for time in times) or all(math.isinf(base.upper) for base in bases):
        return 0.0
    return as_ratio(log)


def as_ratio(log: float) -> float:
    """exp of an end of an interval, which may be infinite or too large for a float."""
    return 0.0 if log < -700 else math.inf if log > 700 else math.exp(log)


def check(
    blocks: Sequence[Hashable],
    treatments: Sequence[str | None],
    times: Sequence[Span],
    names: Sequence[str],
    seeds: Sequence[Hashable],
) -> None:
    """Raise UserError unless these runs are a paired experiment whose effects can be estimated."""
    if not len(blocks) == len(treatments) == len(times):
        raise UserError(f"times: {len(times)} for {len(blocks)} seeds and {len(treatments)} treatments; give one each")
    if not names or None not in treatments:
        raise UserError("treatments: give runs with and without an intervention; None marks the base")
    if len(seeds) < FEWEST_SEEDS:
        raise UserError(f"seeds: {len(seeds)} cannot show how much runs differ by chance; give at least {FEWEST_SEEDS}")
    pairs = list(zip(blocks, treatments, strict=True))
    if len(set(pairs)) < len(pairs):
        raise UserError("seeds: a seed occurs twice with the same treatment; give one run of each")
    base = {block for block, kind in pairs if kind is None}
    for block, kind in pairs:
        if block not in base:
            raise UserError(f"seeds: seed {block} of {kind} has no run of the base to compare with; make it")
    seen = sum(map(is_seen, times))
    if seen < 2:
        raise UserError(f"times: {seen} of {len(times)} were observed; run longer")


def holm(effects: dict[str, Effect]) -> dict[str, Effect]:
    """The effects with p-values that hold for all of them together (Holm 1979).

    >>> one = Effect("", 1.0, (1.0, 1.0), 0.02, 1.0, 3, 0)
    >>> [round(e.adjusted, 3) for e in holm({"a": one, "b": replace(one, p=0.03), "c": replace(one, p=0.9)}).values()]
    [0.06, 0.06, 0.9]
    """
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, key in enumerate(sorted(effects, key=lambda key: effects[key].p)):
        largest = max(largest, min(1.0, (len(effects) - rank) * effects[key].p))
        adjusted[key] = largest
    return {key: replace(one, adjusted=adjusted[key]) for key, one in effects.items()}
