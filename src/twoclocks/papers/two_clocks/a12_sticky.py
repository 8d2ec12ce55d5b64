"""Claim A12: once copying has begun, copies stay copies while invalid samples recover (P1 §4.1, C.4.1, Fig. 11)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from twoclocks.core.arrays import Floats
from twoclocks.core.seeds import numpy_stream
from twoclocks.dissection.views.raster import RasterInfo, States
from twoclocks.evaluation.states import STATES, State
from twoclocks.papers.claim import CLAIMS, Answer
from twoclocks.papers.intervals import Interval, is_positive
from twoclocks.papers.records import Record
from twoclocks.papers.two_clocks.run_by_run import Finding, RunByRun
from twoclocks.papers.two_clocks.runs import DIT
from twoclocks.papers.views import view_of

RESAMPLES = 400
ORDER: tuple[State, ...] = ("broken", "valid-new", "memorized")  # from the least persistent to the most


@dataclass(frozen=True)
class Persistence(Finding):
    """(stay − p)/(1 − p) of each state: 0 where the next state does not depend on this one, 1 where it never changes.

    ``stay`` is the probability to be in the same state at the next evaluation, p the state's own share there. Without
    it the most frequent state would always look the most persistent.
    """

    value: Floats  # (4,); NaN where no sample was in the state
    low: Floats  # 95% interval, by bootstrap over the noises
    high: Floats

    def answers(self) -> dict[str, Answer]:
        """Whether copies persist more than new samples, and those more than broken ones."""
        bands = {state: Interval(float(self.low[k]), float(self.high[k])) for k, state in enumerate(STATES)}
        pairs = {f"{less}, then {more}": bands[more] - bands[less] for less, more in pairwise(ORDER)}
        known = all(np.isfinite([bands[state].low, bands[state].high]).all() for state in ORDER)
        return {name: is_positive(gap) if known else "undecided" for name, gap in pairs.items()}

    def as_json(self) -> dict[str, Any]:
        both = zip(STATES, zip(self.value, self.low, self.high, strict=True), strict=True)
        return {name: [float(v) if np.isfinite(v) else None for v in three] for name, three in both}

    def words(self) -> str:
        named = (("copies", 3), ("new", 2), ("broken", 1))
        return ", ".join(f"{name} {self.value[k]:.2f} ({self.low[k]:.2f} to {self.high[k]:.2f})" for name, k in named)


@CLAIMS.register("A12")
class Sticky(RunByRun):
    """DiT-mini at G = 3: outcomes of the same initial noises at successive evaluations."""

    id: ClassVar[str] = "A12"
    title: ClassVar[str] = "Memorized is sticky, a rule error is transient"
    paper: ClassVar[str] = "late in training copies tend to stay copies; samples that break the rule flip back quickly"
    criterion: ClassVar[str] = (
        "once copying has begun, (stay − p)/(1 − p), with p the state's own share, is larger for copies than for valid "
        "and new samples, and larger for these than for invalid ones; 95% intervals apart"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig3", "fig11")
    grids: ClassVar[tuple[str, ...]] = ("dissection",)

    preset: ClassVar[str] = DIT
    needed: ClassVar[str] = "outcomes at two evaluations after copying has begun"

    def finding(self, record: Record) -> Persistence | None:
        return late_persistence(record)


def late_persistence(record: Record) -> Persistence | None:
    """Persistence after both clocks; None where the run was not dissected, or has no two evaluations there."""
    info = view_of(record, "raster")
    if not isinstance(info, RasterInfo) or info.clocks is None or not info.clocks.memory.seen:
        return None
    late = info.steps >= info.clocks.memory.upper
    return persistence_of(info.states[late]) if late.sum() >= 2 else None


def persistence_of(states: States, resamples: int = RESAMPLES) -> Persistence:
    """Persistence of each state over all evaluations, from states (evaluations, noises)."""
    noises = states.shape[1]
    drawn = numpy_stream(0, "persistence").multinomial(noises, np.full(noises, 1 / noises), size=resamples)
    found = weighted_persistence(states, np.concatenate([np.ones((1, noises)), drawn]))
    with np.errstate(all="ignore"):
        absent = np.isnan(found).mean(axis=0) > 0.05  # in too few noises for a bootstrap
        low, high = np.nanpercentile(np.where(absent, 0.0, found[1:]), [2.5, 97.5], axis=0)
    return Persistence(found[0], np.where(absent, np.nan, low), np.where(absent, np.nan, high))


def weighted_persistence(states: States, weights: npt.NDArray[Any]) -> Floats:
    """Persistence (weightings, 4) for several weightings (weightings, noises) of the noises."""
    number = len(states) - 1
    kinds = (states[:, :, None] == np.arange(4)).astype(np.float64)  # (evaluations, noises, 4)
    share = np.einsum("wn,tnk->wtk", weights, kinds, optimize=True)
    both = np.einsum("wn,tnk->wtk", weights, kinds[:-1] * kinds[1:], optimize=True)
    whole = weights.sum(axis=1)[:, None]
    tried = share[:, :number].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        stay = both.sum(axis=1) / tried
        # p at the next evaluation, weighted like ``stay``: shares change over the window.
        own = (share[:, :number] * share[:, 1:]).sum(axis=1) / whole / tried
        found: Floats = (stay - own) / (1 - own)
    return found
