"""Noise levels of EDM: training at more or less noise, or first at more of it (a curriculum)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twoclocks.core.config import setting
from twoclocks.objectives.edm import EDM
from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


def mean_of(base: RunSettings) -> float:
    """The mean of ln σ; other objectives have none, and refuse the setting by its name."""
    return base.objective.log_sigma_mean if isinstance(base.objective, EDM) else 0.0


@INTERVENTIONS.register("higher_noise")
@dataclass(frozen=True, kw_only=True)
class HigherNoise(Intervention):
    """Training at higher noise levels, where training samples cannot be told apart."""

    shift: float = setting(0.7, "what is added to the mean of ln σ", above=0)

    def change(self, base: RunSettings) -> dict[str, Any]:
        return {"objective.log_sigma_mean": mean_of(base) + self.shift}


@INTERVENTIONS.register("lower_noise")
@dataclass(frozen=True, kw_only=True)
class LowerNoise(Intervention):
    """Training at lower noise levels, where every entry is known from itself."""

    shift: float = setting(0.7, "what is subtracted from the mean of ln σ", above=0)

    def change(self, base: RunSettings) -> dict[str, Any]:
        return {"objective.log_sigma_mean": mean_of(base) - self.shift}


@INTERVENTIONS.register("narrow_noise")
@dataclass(frozen=True, kw_only=True)
class NarrowNoise(Intervention):
    """Training in a narrower range of noise levels, which weighs its middle more."""

    factor: float = setting(0.6, "by what the standard deviation of ln σ is multiplied", above=0, below=1)

    def change(self, base: RunSettings) -> dict[str, Any]:
        deviation = base.objective.log_sigma_std if isinstance(base.objective, EDM) else 1.0
        return {"objective.log_sigma_std": self.factor * deviation}


@INTERVENTIONS.register("noise_curriculum")
@dataclass(frozen=True, kw_only=True)
class NoiseFirst(Intervention):
    """Higher noise levels first, then linearly to those of the base."""

    shift: float = setting(1.5, "how much higher the mean of ln σ is at the first step")
    share: float = setting(0.1, "share of the training steps after which it is that of the base", above=0, at_most=1)

    def change(self, base: RunSettings) -> dict[str, Any]:
        steps = max(1, round(self.share * base.training.steps))
        return {"objective.first_shift": self.shift, "objective.shift_steps": steps}
