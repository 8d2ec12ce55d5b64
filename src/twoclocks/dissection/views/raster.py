"""View ``raster``: the outcome of each initial noise at every evaluation, its transitions and dwell times."""

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
from twoclocks.runs.settings import RunSettings

MEMORIZED = STATES.index("memorized")
States = npt.NDArray[np.uint8]
Span = tuple[float, float]


@dataclass(frozen=True)
class TransitionWindow:
    """Transitions from one evaluation to the next, counted over a window of training steps."""

    name: str
    first: int  # steps of the first and the last evaluation in the window
    last: int
    counts: npt.NDArray[np.int64]  # (4, 4): from state, to state
    stay: Floats  # (4,): probability to be in the same state at the next evaluation; NaN where no noise was in it
    stay_low: Floats
    stay_high: Floats
    dwell: Floats  # (4,): mean stay in evaluations; inf where a state was never left

    @property
    def markov(self) -> Floats:
        """Probability (4, 4) of the next state given the present one; a row of NaN where no noise was in it."""
        total = self.counts.sum(axis=1, keepdims=True)
        return ratio(self.counts, np.broadcast_to(total, (4, 4)))


@dataclass(frozen=True)
class RasterInfo(Info):
    states: States  # (steps, noises), indices into STATES
    windows: tuple[TransitionWindow, ...]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Noises in each state at each step (steps, 4)."""
        return np.stack([(self.states == k).sum(axis=1) for k in range(4)], axis=1)

    @property
    def transitions(self) -> npt.NDArray[np.int64]:
        """Number of transitions from each evaluation to the next (steps − 1, 4, 4)."""
        return np.stack([counted(a, b).sum(axis=0) for a, b in pairwise(self.states)])

    @property
    def first_memorized(self) -> Floats:
        """The step at which each noise first generates a training sample; inf: never."""
        hit = self.states == MEMORIZED
        return np.where(hit.any(axis=0), self.steps[hit.argmax(axis=0)], np.inf)

    @property
    def order(self) -> npt.NDArray[np.intp]:
        """Noises sorted by their first memorization; those without one by the number of valid samples."""
        valid = (self.states >= STATES.index("valid-new")).sum(axis=0)
        return np.lexsort((-valid, self.first_memorized))

    def sentences(self) -> list[str]:
        n, last = self.states.shape[1], self.counts[-1] / self.states.shape[1]
        found = [
            f"{n:,} noises at {len(self.steps)} evaluations. At the last one, {last[2]:.1%} of the samples are valid "
            f"and new, {last[3]:.1%} are copies, {last[1]:.1%} break the rule, {last[0]:.1%} lie between symbols."
        ]
        ever = float((self.states == MEMORIZED).any(axis=0).mean())
        found.append(f"{ever:.1%} of the noises generated a training sample at some evaluation.")
        if not self.windows:
            return [*found, "No window holds two evaluations, so there are no transitions to count."]
        window = self.windows[-1]
        for k, sample, kind in (
            (MEMORIZED, "A copy", "a copy"),
            (2, "A valid and new sample", "valid and new"),
            (1, "An invalid sample", "invalid"),
        ):
            if math.isfinite(window.stay[k]):
                known = math.isfinite(window.dwell[k])
                dwell = f"mean stay: {window.dwell[k]:.1f} evaluations" if known else "it never changed"
                found.append(
                    f"{sample} stays {kind} at the next evaluation {window.stay[k]:.0%} of the time "
                    f"(95% interval {window.stay_low[k]:.0%} to {window.stay_high[k]:.0%}; {dwell}), {window.name}."
                )
        return found

    def numbers(self) -> dict[str, Any]:
        return {
            "noises": int(self.states.shape[1]),
            "ever_memorized": float((self.states == MEMORIZED).any(axis=0).mean()),
            "counts": {name: self.counts[:, k].tolist() for k, name in enumerate(STATES)},
            "phases": [  # the key of results that were stored before
                {
                    "name": window.name,
                    "steps": [window.first, window.last],
                    "counts": window.counts.tolist(),
                    "stay": {
                        name: [float(window.stay[k]), float(window.stay_low[k]), float(window.stay_high[k])]
                        for k, name in enumerate(STATES)
                        if math.isfinite(window.stay[k])
                    },
                    "dwell": {name: float(d) for name, d in zip(STATES, window.dwell, strict=True) if math.isfinite(d)},
                }
                for window in self.windows
            ],
        }


@VIEWS.register("raster")
@dataclass(frozen=True, kw_only=True)
class Raster(View):
    """The outcome of each initial noise at every evaluation: between symbols, invalid, valid and new, or a copy."""

    reads: ClassVar[Reads] = "samples"
    interprets: ClassVar[tuple[str, ...]] = ("windows",)
    fewest: ClassVar[int] = 2
    windows: tuple[int, ...] = setting(
        (), "first and last step of each window of transitions, in pairs; empty: before, between and after the clocks"
    )

    def check(self) -> None:
        pairs = list(zip(self.windows[::2], self.windows[1::2], strict=False))
        if len(self.windows) % 2 or any(last <= first for first, last in pairs):
            raise SettingError(
                "windows", list(self.windows), "give pairs of steps, for example [30, 300, 10000, 30000]"
            )

    def refusal(self, settings: RunSettings) -> str | None:
        if settings.rule.is_image:
            return "images obey no rule, so their states are copies or not; the copy rate and trajectories show these"
        return None

    def prepare(self, subject: Subject) -> Probe:
        return RasterProbe(subject)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> RasterInfo:
        at = np.array(steps, dtype=np.int64)
        named = self.named_windows(subject.clocks, at)
        windows = [
            transitions_in(name, at[inside], measurements["states"][inside])
            for name, inside in ((name, (at >= a) & (at <= b)) for name, (a, b) in named.items())
            if inside.sum() >= 2
        ]
        return RasterInfo(at, subject.clocks, measurements["states"], tuple(windows))

    def named_windows(self, clocks: Clocks | None, steps: npt.NDArray[np.int64]) -> dict[str, Span]:
        """First and last step of each window, by its name in sentences."""
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
    """The transition of each noise, one-hot (noises, 4, 4)."""
    kinds: npt.NDArray[np.int64] = np.eye(16, dtype=np.int64)[before.astype(np.intp) * 4 + after]
    return kinds.reshape(-1, 4, 4)


def transitions_in(name: str, steps: npt.NDArray[np.int64], states: States) -> TransitionWindow:
    """Count the transitions between consecutive evaluations of a window."""
    each = np.sum([counted(a, b) for a, b in pairwise(states)], axis=0)  # (noises, 4, 4)
    counts = each.sum(axis=0)
    stay = stays(counts)
    low, high = stay_interval(each, stay)
    return TransitionWindow(name, int(steps[0]), int(steps[-1]), counts, stay, low, high, dwell_times(states))


def stay_interval(each: npt.NDArray[np.int64], stay: Floats) -> tuple[Floats, Floats]:
    """95% bounds of the probabilities to stay, from each noise's own transitions (noises, 4, 4).

    Transitions of one noise depend on each other, so the effective number of trials is the one at which independent
    trials would vary as much as the noises do; without any variation it is the number of noises that were in the state.
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
    """Probability to stay in each state, (…, 4) from counts (…, 4, 4); NaN where no noise was in it."""
    return ratio(np.diagonal(counts, axis1=-2, axis2=-1), counts.sum(axis=-1))


def ratio(part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64]) -> Floats:
    """Elementwise quotient; NaN where the denominator is 0."""
    found = np.full(whole.shape, np.nan)
    np.divide(part, whole, out=found, where=whole > 0)
    return found


def dwell_times(states: States) -> Floats:
    """Mean stay in each state: evaluations spent in it, divided by the number of times that it was left.

    Stays that the last evaluation cuts off count with the time that is known. Changes between two evaluations that are
    reversed before the second one are not seen.
    """
    found = np.full(4, np.nan)
    for k in range(4):
        spent = int((states[:-1] == k).sum())
        left = int(((states[:-1] == k) & (states[1:] != k)).sum())
        if spent:
            found[k] = spent / left if left else np.inf
    return found
