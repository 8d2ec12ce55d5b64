"""How a run's clocks are read off its curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from twoclocks.clocks.onset import onset
from twoclocks.clocks.window import Clocks
from twoclocks.core.config import Settings, setting
from twoclocks.core.errors import SettingError

RESOLVED = 10  # expected hits (and misses) at the threshold that make a crossing more than one lucky sample


@dataclass(frozen=True, kw_only=True)
class ClockSettings(Settings):
    """Thresholds of the two clocks (P1 §3, C.7)."""

    rule_threshold: float = setting(0.9, "sample accuracy above which the rule is learned", above=0, below=1)
    memory_threshold: float = setting(0.1, "copied fraction above which memory has begun", above=0, below=1)
    above_chance: bool = setting(False, "count memory_threshold from the chance level upwards ('adaptive')")
    sustain: int = setting(3, "consecutive evaluations that must agree", at_least=1)

    def check_samples(self, samples: int) -> None:
        """Refuse a number of samples with which the thresholds cannot be told from noise."""
        for name in ("rule_threshold", "memory_threshold"):
            threshold = getattr(self, name)
            need = RESOLVED / min(threshold, 1 - threshold)
            if samples < need * (1 - 1e-9):
                fix = f"clocks.{name} = {threshold:g} needs at least {int(need + 0.999)} samples an evaluation"
                raise SettingError("evaluation.samples", samples, fix)

    def memory_level(self, chance: float) -> float:
        """The copied fraction that counts as memory, where true samples are copies with probability ``chance``."""
        level = self.memory_threshold + (chance if self.above_chance else 0.0)
        if level >= 1 or chance >= level:
            fix = f"a true sample is a copy with chance {chance:.2g}; use fewer training samples or a larger rule"
            raise SettingError("clocks.memory_threshold", self.memory_threshold, fix)
        return level

    def check_chance(self, samples: int, validity: float, copies: float) -> None:
        """Refuse thresholds that chance alone would cross: they must lie 4 standard errors above its level."""
        levels = {
            "rule_threshold": (self.rule_threshold, validity, "uniform symbols are valid"),
            "memory_threshold": (self.memory_level(copies), copies, "a true sample is a copy"),
        }
        for name, (level, chance, what) in levels.items():
            if level - chance < 4 * math.sqrt(chance * (1 - chance) / samples):
                fix = f"{what} with chance {chance:.2g}, too close for {samples} samples; raise either"
                if chance >= level:
                    fix = f"{what} with chance {chance:.2g}; use a rule that is harder to obey by chance"
                raise SettingError(f"clocks.{name}", getattr(self, name), fix)

    def read(
        self,
        steps: Sequence[int],
        valid: Sequence[int],
        copied: Sequence[int],
        trials: Sequence[int],
        copy_chance: float,
    ) -> Clocks:
        """Both clocks from the counts of valid and of copied samples at each evaluation."""
        return Clocks(
            rule=onset(steps, valid, trials, self.rule_threshold, self.sustain),
            memory=onset(steps, copied, trials, self.memory_level(copy_chance), self.sustain),
        )
