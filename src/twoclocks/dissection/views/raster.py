"""The fate of every noise: four states at every evaluation, how they follow each other, how long they last."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.window import Clocks
from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.core.proportion import clopper_pearson
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.dissection.view import VIEWS, Arrays, Info, Probe, View
from twoclocks.evaluation.states import STATES

MEMORIZED = STATES.index("memorized")
States = npt.NDArray[np.uint8]
Span = tuple[float, float]


@dataclass(frozen=True)
class Stretch:
    """What happened between two evaluations, over a stretch of training."""

    name: str
    first: int  # steps of the evaluations at which it begins and ends
    last: int
    counts: npt.NDArray[np.int64]  # (4, 4): from state, to state
    stay: Floats  # (4,): probability to be in the same state at the next evaluation; NaN where nobody was in it
    stay_low: Floats
    stay_high: Floats
    dwell: Floats  # (4,): evaluations spent in a state for each time it was left; inf where it never was

    @property
    def markov(self) -> Floats:
        """Probability of the next state given the present one; a row of NaN where nobody was in it."""
        total = self.counts.sum(axis=1, keepdims=True)
        return ratio(self.counts, np.broadcast_to(total, (4, 4)))


@dataclass(frozen=True)
class RasterInfo(Info):
    states: States  # (steps, noises), indices into STATES
    phases: tuple[Stretch, ...]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Noises in each state at each step (steps, 4)."""
        return np.stack([(self.states == k).sum(axis=1) for k in range(4)], axis=1)

    @property
    def transitions(self) -> npt.NDArray[np.int64]:
        """From each evaluation to the next (steps − 1, 4, 4)."""
        return np.stack([counted(a, b).sum(axis=0) for a, b in pairwise(self.states)])

    @property
    def first_memorized(self) -> Floats:
        """The step at which each noise first gives a training sample; inf: never."""
        hit = self.states == MEMORIZED
        return np.where(hit.any(axis=0), self.steps[hit.argmax(axis=0)], np.inf)

    @property
    def order(self) -> npt.NDArray[np.intp]:
        """Noises by their first memorization; the others by how long they have been valid at the end."""
        valid = (self.states >= STATES.index("valid-new")).sum(axis=0)
        return np.lexsort((-valid, self.first_memorized))

    def sentences(self) -> list[str]:
        n, last = self.states.shape[1], self.counts[-1] / self.states.shape[1]
        said = [
            f"{n:,} noises at {len(self.steps)} evaluations. At the last, {last[2]:.1%} give valid and new samples, "
            f"{last[3]:.1%} training samples, {last[1]:.1%} break the rule, {last[0]:.1%} lie between symbols."
        ]
        ever = float((self.states == MEMORIZED).any(axis=0).mean())
        said.append(f"{ever:.1%} of the noises gave a training sample at some evaluation.")
        if not self.phases:
            return [*said, "No window holds two evaluations, so there are no transitions to count."]
        phase = self.phases[-1]
        for k, words in ((MEMORIZED, "A training sample"), (2, "A valid and new sample"), (1, "A broken rule")):
            if math.isfinite(phase.stay[k]):
                visit = f"is left once in {phase.dwell[k]:.1f} evaluations on average"
                said.append(
                    f"{words} is still one at the next evaluation with probability {phase.stay[k]:.2f} "
                    f"({phase.stay_low[k]:.2f} to {phase.stay_high[k]:.2f}) {phase.name}; it "
                    f"{visit if math.isfinite(phase.dwell[k]) else 'was never left'}."
                )
        return said

    def numbers(self) -> dict[str, Any]:
        return {
            "noises": int(self.states.shape[1]),
            "ever_memorized": float((self.states == MEMORIZED).any(axis=0).mean()),
            "counts": {name: self.counts[:, k].tolist() for k, name in enumerate(STATES)},
            "phases": [
                {
                    "name": phase.name,
                    "steps": [phase.first, phase.last],
                    "counts": phase.counts.tolist(),
                    "stay": {
                        name: [float(phase.stay[k]), float(phase.stay_low[k]), float(phase.stay_high[k])]
                        for k, name in enumerate(STATES)
                        if math.isfinite(phase.stay[k])
                    },
                    "dwell": {name: float(d) for name, d in zip(STATES, phase.dwell, strict=True) if math.isfinite(d)},
                }
                for phase in self.phases
            ],
        }


@VIEWS.register("raster")
@dataclass(frozen=True, kw_only=True)
class Raster(View):
    """Which state each noise's sample is in at every evaluation."""

    reads: ClassVar[Reads] = "samples"
    interprets: ClassVar[tuple[str, ...]] = ("windows",)
    fewest: ClassVar[int] = 2
    windows: tuple[int, ...] = setting(
        (), "first and last step of each window for transitions, in pairs; empty: as the clocks divide the run"
    )

    def check(self) -> None:
        pairs = list(zip(self.windows[::2], self.windows[1::2], strict=False))
        if len(self.windows) % 2 or any(last <= first for first, last in pairs):
            raise SettingError(
                "windows", list(self.windows), "give pairs of steps, for example [30, 300, 10000, 30000]"
            )

    def prepare(self, subject: Subject) -> Probe:
        return RasterProbe(subject)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> RasterInfo:
        at = np.array(steps, dtype=np.int64)
        named = self.named_windows(subject.clocks, at)
        phases = [
            stretch_of(name, at[inside], measurements["states"][inside])
            for name, inside in ((name, (at >= a) & (at <= b)) for name, (a, b) in named.items())
            if inside.sum() >= 2
        ]
        return RasterInfo(at, subject.clocks, measurements["states"], tuple(phases))

    def named_windows(self, clocks: Clocks | None, steps: npt.NDArray[np.int64]) -> dict[str, Span]:
        if self.windows:
            pairs = zip(self.windows[::2], self.windows[1::2], strict=True)
            return {f"from step {a:,} to {b:,}": (a, b) for a, b in pairs}
        whole: dict[str, Span] = {"over the whole run": (0, math.inf)}
        if clocks is None or not clocks.rule.seen:
            return whole
        found: dict[str, Span] = {"before the rule": (0, clocks.rule.upper)}
        if not clocks.memory.seen:
            return found | {"after the rule": (clocks.rule.upper, math.inf)}
        if clocks.memory.upper > clocks.rule.upper:
            found["between the clocks"] = (clocks.rule.upper, clocks.memory.upper)
        return found | {"once copying has begun": (max(clocks.memory.upper, clocks.rule.upper), math.inf)}


@dataclass(frozen=True)
class RasterProbe(Probe):
    subject: Subject

    def measure(self, step: int) -> Arrays:
        return {"states": self.subject.states(step).cpu().numpy()}


def counted(before: States, after: States) -> npt.NDArray[np.int64]:
    """Which transition each noise makes, as (noises, 4, 4) with a single one."""
    kinds: npt.NDArray[np.int64] = np.eye(16, dtype=np.int64)[before.astype(np.intp) * 4 + after]
    return kinds.reshape(-1, 4, 4)


def stretch_of(name: str, steps: npt.NDArray[np.int64], states: States) -> Stretch:
    """Transitions between consecutive evaluations."""
    each = np.sum([counted(a, b) for a, b in pairwise(states)], axis=0)  # (noises, 4, 4)
    counts = each.sum(axis=0)
    stay = stays(counts)
    low, high = stay_interval(each, stay)
    return Stretch(name, int(steps[0]), int(steps[-1]), counts, stay, low, high, dwell_times(states))


def stay_interval(each: npt.NDArray[np.int64], stay: Floats) -> tuple[Floats, Floats]:
    """95% bounds of the probabilities to stay, from each noise's own transitions (noises, 4, 4).

    Moves of one noise depend on each other, so the number of trials is what independent ones would need to scatter as
    the noises do; where nothing scatters, it is the number of noises that were ever in the state.
    """
    stayed, tried = np.diagonal(each, axis1=1, axis2=2), each.sum(axis=2)  # (noises, 4)
    total = tried.sum(axis=0)
    rate = np.nan_to_num(stay)
    scatter = ((stayed - rate * tried) ** 2).sum(axis=0) / np.maximum(total, 1) ** 2
    noises = (tried > 0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        trials = np.where(scatter > 0, rate * (1 - rate) / scatter, noises)
    trials = np.maximum(np.minimum(trials, total), 1)
    low, high = clopper_pearson(rate * trials, trials, np.full(4, 0.025))
    return np.where(total > 0, low, np.nan), np.where(total > 0, high, np.nan)


def stays(counts: npt.NDArray[np.int64]) -> Floats:
    """Probability to stay in each state, (…, 4) of counts (…, 4, 4); NaN where nobody was in it."""
    return ratio(np.diagonal(counts, axis1=-2, axis2=-1), counts.sum(axis=-1))


def ratio(part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64]) -> Floats:
    """NaN where there is nothing to divide by."""
    found = np.full(whole.shape, np.nan)
    np.divide(part, whole, out=found, where=whole > 0)
    return found


def dwell_times(states: States) -> Floats:
    """Evaluations spent in a state for each time it was left: the mean of geometric visits, some cut off by the end.

    What happens between two evaluations is not seen.
    """
    found = np.full(4, np.nan)
    for k in range(4):
        spent = int((states[:-1] == k).sum())
        left = int(((states[:-1] == k) & (states[1:] != k)).sum())
        if spent:
            found[k] = spent / left if left else np.inf
    return found
