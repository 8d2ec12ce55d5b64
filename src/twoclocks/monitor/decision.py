"""What a monitor says after an observation: phase, rates, copies, and whether to stop and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from twoclocks.clocks.chance import Chance
from twoclocks.clocks.forecast import Forecast, forecast_run
from twoclocks.clocks.looks import least_samples, rate_bounds
from twoclocks.clocks.series import Series
from twoclocks.clocks.settings import ClockSettings, Policy
from twoclocks.clocks.window import Clocks
from twoclocks.core.arrays import Floats
from twoclocks.monitor.criteria import Matches
from twoclocks.monitor.criteria.base import Indices

MonitorPhase = Literal["learning", "rule learned", "copying suspected", "copying"]


@dataclass(frozen=True)
class Copies:
    """The copies among the samples of an observation, nearest first."""

    samples: Indices  # index of each copy among the samples
    rows: Indices  # index of its original in ``train`` as it was given; −1 if the criterion does not say
    distances: Floats  # the number that the criterion compared with its threshold

    @classmethod
    def of(cls, matches: Matches, original: Indices) -> Copies:
        """The copies of a comparison; ``original`` (N,) says where each distinct training row was given."""
        found = np.flatnonzero(matches.copied)
        found = found[np.argsort(matches.distances[found], kind="stable")]
        rows = matches.rows[found]
        return cls(found, np.where(rows >= 0, original[rows], -1), matches.distances[found])

    def __len__(self) -> int:
        return len(self.samples)


@dataclass(frozen=True)
class Decision:
    """The phase, the rates and the stop decision after an observation."""

    step: int
    phase: MonitorPhase
    stop: bool
    reason: str  # why to stop, or why not, in a sentence
    copy_rate: float
    copy_rate_ci: tuple[float, float]  # valid at all looks (interim analyses) together
    copy_chance: float | None  # copy rate of a model that learned only the rule; None if not known
    valid_rate: float | None  # None where validity is not known
    clocks: Clocks
    copies: Copies | None  # None where only counts were given
    series: Series = field(repr=False)  # all looks so far
    level: float = field(repr=False)  # the copy rate above which copying has begun

    @cached_property
    def forecast(self) -> Forecast | None:
        """Forecast of τ_mem, computed at first use; None once copying has begun or is suspected.

        It is also None where a few held-out samples leave it open whether chance alone exceeds the threshold.
        """
        series, chance = self.series, self.copy_chance or 0.0
        begun = self.phase in ("copying", "copying suspected") or self.copy_rate_ci[0] > self.level
        if begun or self.step == 0 or chance >= self.level:
            return None
        return forecast_run(series.steps, series.copied, series.trials, self.level, chance)

    @property
    def loss_gap(self) -> float | None:
        """Held-out minus training loss at this look; None where losses were not given."""
        return None if self.series.gaps is None else float(np.asarray(self.series.gaps)[-1])

    @property
    def similarity(self) -> float | None:
        """Mean cosine of each sample with its nearest training row; None where the criterion compares no cosines."""
        return None if self.series.similarity is None else float(np.asarray(self.series.similarity)[-1])

    def as_dict(self) -> dict[str, float]:
        """The decision as numbers with plain names, for a logger; what is not known is left out.

        ``phase`` is 0 (learning), 1 (rule learned), 2 (copying suspected) or 3 (copying); ``tau_rule``, ``tau_mem`` and
        ``tau_gap`` are the steps by which each clock was seen.
        """
        low, high = self.copy_rate_ci
        gap = self.clocks.gap
        known = {
            "step": self.step,
            "stop": self.stop,
            "phase": get_args(MonitorPhase).index(self.phase),
            "copy_rate": self.copy_rate,
            "copy_rate_low": low,
            "copy_rate_high": high,
            "copy_chance": self.copy_chance,
            "valid_rate": self.valid_rate,
            "similarity": self.similarity,
            "loss_gap": self.loss_gap,
            "tau_rule": self.clocks.rule.upper if self.clocks.rule.seen else None,
            "tau_mem": self.clocks.memory.upper if self.clocks.memory.seen else None,
            "tau_gap": gap.upper if gap is not None and gap.seen else None,
            "copying_suspected_since": self.clocks.suspected,
        }
        return {name: float(value) for name, value in known.items() if value is not None}


def phase_of(clocks: Clocks) -> MonitorPhase:
    """The phase of training that the clocks show."""
    if clocks.memory.seen:
        return "copying"
    if clocks.suspected is not None:
        return "copying suspected"
    return "rule learned" if clocks.rule.seen else "learning"


def looks_in_words(number: int) -> str:
    return f"{number} look" if number == 1 else f"{number} looks"


@dataclass(frozen=True)
class Judgement:
    """Decides when to stop, from the looks so far: a policy, the clocks' settings and the chance level."""

    policy: Policy
    settings: ClockSettings
    chance: Chance | None

    def decide(self, series: Series, copies: Copies | None = None) -> Decision:
        """The decision after the last look of a series."""
        confidence, levels = self.settings.look_confidence(self.chance), self.settings.memory_levels(self.chance)
        clocks = self.settings.read(series, self.chance, changes=False)
        copied, trials = (np.asarray(values, dtype=np.float64) for values in (series.copied, series.trials))
        # The interval has two sides, each with half the error; a policy uses one side only.
        low, high = (float(ends[-1]) for ends in rate_bounds(copied, trials, (1 + confidence) / 2))
        stop, reason = self.judge(clocks, series)
        valid = series.valid
        return Decision(
            step=int(np.asarray(series.steps)[-1]),
            phase=phase_of(clocks),
            stop=stop,
            reason=reason,
            copy_rate=float(copied[-1] / trials[-1]),
            copy_rate_ci=(low, high),
            copy_chance=None if self.chance is None else self.chance.rate,
            valid_rate=None if valid is None else float(np.asarray(valid)[-1] / trials[-1]),
            clocks=clocks,
            copies=copies,
            series=series,
            level=levels.nominal,
        )

    def judge(self, clocks: Clocks, series: Series) -> tuple[bool, str]:
        """Whether the policy says stop, and the reason."""
        if self.policy == "rule":
            return clocks.rule.seen, f"the rule: {clocks.rule}"
        if self.policy == "memory":
            return clocks.memory.seen, self.memory_reason(clocks, series)
        if self.policy == "caution":
            return self.caution(series)
        return False, "policy never"

    def memory_reason(self, clocks: Clocks, series: Series) -> str:
        """How many looks the policy "memory" waited, and for what."""
        levels, sustain = self.settings.memory_levels(self.chance), self.settings.sustain
        steps = np.asarray(series.steps)
        above = f"copies above {levels.confirm:.3g} with {self.settings.claimed_confidence:.0%} confidence"
        if clocks.memory.seen:
            looks = int((steps >= clocks.memory.upper).sum())
            waited = f"waited {looks_in_words(sustain - 1)} for {sustain} in a row (clocks.sustain)"
            more = f"; confirmed {looks_in_words(looks - sustain)} ago" if looks > sustain else ""
            return f"memory: {clocks.memory}; {above} since step {clocks.memory.upper:,.0f}, {waited}{more}"
        if clocks.suspected is not None:
            streak = self.streak(series)
            return f"not yet: {above}, at {streak} of {sustain} looks in a row; first at step {clocks.suspected:,.0f}"
        copied, trials = float(np.asarray(series.copied)[-1]), float(np.asarray(series.trials)[-1])
        return f"memory: {clocks.memory}; copies {copied / trials:.3g}, copying is confirmed above {levels.confirm:.3g}"

    def streak(self, series: Series) -> int:
        """How many of the last looks in a row have a lower bound above the threshold."""
        copied, trials = (np.asarray(values, dtype=np.float64) for values in (series.copied, series.trials))
        lower = rate_bounds(copied, trials, self.settings.look_confidence(self.chance))[0]
        below = np.flatnonzero(lower <= self.settings.memory_levels(self.chance).confirm)
        return len(lower) - 1 - int(below[-1]) if len(below) else len(lower)

    def caution(self, series: Series) -> tuple[bool, str]:
        """Stop as soon as copies above the threshold can no longer be excluded."""
        copied, trials = (np.asarray(values, dtype=np.float64) for values in (series.copied, series.trials))
        high = float(rate_bounds(copied, trials, self.settings.look_confidence(self.chance))[1][-1])
        level = self.settings.memory_levels(self.chance).exclude
        confidence, chance = (
            self.settings.look_confidence(self.chance),
            0.0 if self.chance is None else self.chance.rate,
        )
        need = least_samples(chance, level, len(trials), confidence)
        if high > level and trials[-1] < need:
            few = f"{trials[-1]:.0f} samples are too few at look {len(trials)}: they cannot exclude copies above"
            return True, f"{few} {level:.3g}, even without any; give at least {need}"
        relation = "may reach" if high > level else "stay below"
        bound = f"threshold {level:.3g}, {self.settings.claimed_confidence:.0%} confidence"
        return high > level, f"copies {relation} {high:.3g} ({bound})"
