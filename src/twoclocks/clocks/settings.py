"""Settings of the clocks: how onsets are read from the counts of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from twoclocks.clocks.chance import SHARE, Chance
from twoclocks.clocks.change_point import change_point, no_change
from twoclocks.clocks.looks import least_samples
from twoclocks.clocks.onset import Numbers, Onset, definition_of, gap_onset, onset
from twoclocks.clocks.quality import generation_onset
from twoclocks.clocks.series import Series
from twoclocks.clocks.window import NO_RULE, Clocks
from twoclocks.core.config import Settings, setting
from twoclocks.core.errors import SettingError

Policy = Literal["never", "rule", "memory", "caution"]
POLICIES: dict[str, str] = {
    "never": "watch only",
    "rule": "stop once the rule is learned, with the confidence of clocks.confidence (τ_rule)",
    "memory": "stop once copying has begun, with the confidence of clocks.confidence (τ_mem)",
    "caution": "stop as soon as copies above the threshold can no longer be excluded",
}
ADAPTIVE = "clocks.above_chance: true"  # the fix where copies by chance come near the threshold
PLAIN = 0.95  # confidence used to check the number of samples where clocks.confidence is 0


@dataclass(frozen=True)
class MemoryLevels:
    """The threshold of the copy rate, and its ends where the chance level is uncertain."""

    exclude: float  # a copy rate with an upper bound below it is no copying
    nominal: float
    confirm: float  # a copy rate with a lower bound above it is copying


@dataclass(frozen=True, kw_only=True)
class ClockSettings(Settings):
    """Thresholds of the clocks (P1 §3, C.7; P2 for the gap) and the confidence of a crossing."""

    rule_threshold: float = setting(0.9, "sample accuracy above which the rule is learned", above=0, below=1)
    memory_threshold: float = setting(0.1, "proportion of copies above which copying has begun", above=0, below=1)
    above_chance: bool = setting(False, "add the chance level of copies to memory_threshold (P1's 'adaptive')")
    gap_threshold: float = setting(0.05, "held-out loss minus training loss above which the gap is open", above=0)
    quality_factor: float = setting(
        2.0, "images: τ_gen is when the Fréchet distance is within this factor of its best", above=1, added=True
    )
    loss_factor: float = setting(
        1.1, "data without rule and features: τ_gen is when the held-out loss is within it", above=1, added=True
    )
    sustain: int = setting(3, "consecutive evaluations that must agree", at_least=1)
    confidence: float = setting(0.95, "of the bounds, over all evaluations together; 0: no bounds", at_least=0, below=1)
    stop: Policy = setting("never", f"when a run ends before its last step: {', '.join(POLICIES)}")

    def memory_levels(self, chance: Chance | float | None) -> MemoryLevels:
        """The threshold of τ_mem, where true samples are copies with the probability ``chance`` (None: not known).

        A copy rate must also exceed every chance level that its interval leaves possible.
        """
        level = chance if isinstance(chance, Chance) else Chance.exact(chance or 0.0)
        low, nominal, high = (
            self.memory_threshold + self.above_chance * c for c in (level.low, level.rate, level.high)
        )
        if nominal >= 1 or level.low >= nominal:
            adaptive = f"{ADAPTIVE}, " if self.could_adapt(level.rate) else ""
            other = "a lower" if self.above_chance else f"{adaptive}a higher"
            fix = f"use {other} threshold, fewer training samples, a larger rule or a stricter criterion"
            fix = f"a true sample is a copy with chance {level.rate:.2g}; {fix}"
            raise SettingError("clocks.memory_threshold", self.memory_threshold, fix)
        return MemoryLevels(low, nominal, max(high, level.high))

    def could_adapt(self, copies: float) -> bool:
        """Whether ``above_chance`` is not set, and would leave room above this chance level."""
        return not self.above_chance and self.memory_threshold + copies < 1

    @property
    def claimed_confidence(self) -> float:
        """The confidence that decisions claim: that of the settings, or ``PLAIN`` where clocks have no bounds."""
        return self.confidence or PLAIN

    def look_confidence(self, chance: Chance | float | None) -> float:
        """The confidence of the bounds over all looks; an estimated chance level spends a part of the error."""
        estimated = isinstance(chance, Chance) and not chance.is_exact
        return 1 - (1 - SHARE if estimated else 1) * (1 - self.claimed_confidence)

    def check_samples(self, samples: int, looks: int, validity: float = 0.0, copies: float = 0.0) -> None:
        """Refuse too few samples to separate the thresholds from chance, or from a perfect model, at every look.

        Where everything is valid (chance 1) there is no rule to learn, and its threshold is not checked.
        """
        if self.rule_threshold <= validity < 1:
            fix = f"uniform symbols are valid with chance {validity:.2g}; use a rule that is harder to obey by chance"
            raise SettingError("clocks.rule_threshold", self.rule_threshold, fix)
        chance = {"chance": validity} if validity < 1 else {}
        levels = {
            "rule_threshold": (self.rule_threshold, {**chance, "perfect samples": 1.0}),
            "memory_threshold": (self.memory_levels(copies).nominal, {"chance": copies, "nothing but copies": 1.0}),
        }
        need, name, what, rate = max(
            (least_samples(rate, level, looks, self.confidence or PLAIN), name, what, rate)
            for name, (level, rates) in levels.items()
            for what, rate in rates.items()
        )
        if samples < need:
            why = f"to separate clocks.{name} = {getattr(self, name):g} from {what} ({rate:.2g})"
            near = name == "memory_threshold" and rate == copies > 0 and self.could_adapt(copies)
            fix = f"use at least {need}" + (f", or {ADAPTIVE}" if near else "")
            raise SettingError("evaluation.samples", samples, f"{why} at {looks} evaluations, {fix}")

    def read(self, series: Series, copy_chance: Chance | float | None, changes: bool = True) -> Clocks:
        """All clocks of a series; ``changes`` adds change points, which take about as long as all other clocks."""
        rule, memory = f"above {self.rule_threshold:g}", self.memory_clock(series, copy_chance)
        return Clocks(
            rule=self.rule_clock(series),
            memory=memory,
            gap=self.gap_onset(series),
            parts={
                kind: self.rate_onset(series, hits, self.rule_threshold, f"valid {kind}s {rule}")
                for kind, hits in (series.parts or {}).items()
            },
            changes=change_points(series, self.confidence or PLAIN) if changes else {},
            generation=self.generation_onset(series, memory),
            extraction=self.extraction_clock(series),
        )

    def rule_clock(self, series: Series) -> Onset:
        """τ_rule: when the rate of valid samples rises above its threshold to stay there."""
        what = f"valid above {self.rule_threshold:g}"
        return NO_RULE if series.valid is None else self.rate_onset(series, series.valid, self.rule_threshold, what)

    def memory_clock(self, series: Series, copy_chance: Chance | float | None) -> Onset:
        """τ_mem, defined in words of this series."""
        above = f"above {'chance + ' if self.above_chance else ''}{self.memory_threshold:g}"
        return self.memory_onset(series, copy_chance, f"{series.copies} {above}")

    def extraction_clock(self, series: Series) -> Onset | None:
        """τ_ext: when training texts can be extracted, beyond what guessing continues of held-out ones.

        None where that was not tried, or where guessing leaves no room above it.
        """
        tried = series.extraction
        if tried is None or self.memory_threshold + (tried.chance or 0.0) >= 1:
            return None
        return replace(self, above_chance=True).memory_clock(tried, tried.chance)

    def memory_onset(self, series: Series, chance: Chance | float | None, what: str) -> Onset:
        """When the copy rate rises above its threshold to stay there; an uncertain chance level widens the bounds."""
        levels = self.memory_levels(chance)
        confidence = self.look_confidence(chance) if self.confidence else 0.0
        margins = (levels.nominal - levels.exclude, levels.confirm - levels.nominal) if self.confidence else (0.0, 0.0)
        found = onset(series.steps, series.copied, series.trials, levels.nominal, self.sustain, confidence, margins)
        return found.defined(definition_of(what, self.sustain, self.confidence))

    def rate_onset(self, series: Series, hits: Numbers, threshold: float, what: str) -> Onset:
        """When the rate of hits rises above a threshold to stay there."""
        found = onset(series.steps, hits, series.trials, threshold, self.sustain, self.confidence)
        return found.defined(definition_of(what, self.sustain, self.confidence))

    def generation_onset(self, series: Series, memory: Onset) -> Onset | None:
        """τ_gen; None where samples can be valid or invalid, or their quality was not measured."""
        if series.valid is not None or series.quality is None:
            return None
        factor = self.loss_factor if series.quality.is_loss else self.quality_factor
        return generation_onset(series.steps, series.quality, memory, factor, self.sustain, self.confidence)

    def gap_onset(self, series: Series) -> Onset | None:
        """When the loss gap opens; None where losses were not measured."""
        if series.gaps is None:
            return None
        if series.gap_errors is None:  # their uncertainty is not known
            return gap_onset(series.steps, series.gaps, np.zeros(len(series.gaps)), self.gap_threshold, self.sustain, 0)
        how = self.gap_threshold, self.sustain, self.confidence
        return gap_onset(series.steps, series.gaps, series.gap_errors, *how)


def change_points(series: Series, confidence: float) -> dict[str, Onset]:
    """When the rates of valid samples and of copies first rise; copies are counted among the valid samples.

    Otherwise copies that come by chance with the rule would look like copying.
    """
    step, copied, valid = series.copies_among_valid()
    if series.valid is None:
        return {"memory": change_point(step, copied, valid, confidence, "memory")}
    what = "memory among valid samples"
    memory = change_point(step, copied, valid, confidence, what) if len(step) > 1 else no_change(confidence, what)
    return {"rule": change_point(series.steps, series.valid, series.trials, confidence, "rule"), "memory": memory}
