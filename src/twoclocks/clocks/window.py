"""The innovation window: the steps between the two clocks, and whether the intervals show that there are any."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from twoclocks.clocks.onset import WITHOUT_RULE, Onset

Verdict = Literal["open", "suspected", "empty", "unknown"]
NO_RULE = Onset(0.0, math.inf, "right-censored", definition=WITHOUT_RULE)


@dataclass(frozen=True)
class Clocks:
    """All onsets of one run, and the innovation window between them."""

    rule: Onset
    memory: Onset
    gap: Onset | None = None  # of held-out loss minus training loss; None if it was not measured
    parts: Mapping[str, Onset] = field(default_factory=dict)  # rows, columns, layers, …: when each kind is learned
    changes: Mapping[str, Onset] = field(default_factory=dict)  # of "rule" and "memory", by change point
    generation: Onset | None = None  # τ_gen of data without a rule: when samples are nearly as good as they get

    extraction: Onset | None = None  # τ_ext: when training texts are continued verbatim; None if it was not tried

    @property
    def has_rule(self) -> bool:
        """Whether there is a rule clock: natural data have the clocks of quality, of copies and of the loss gap."""
        return self.rule.definition != NO_RULE.definition

    @property
    def learned(self) -> Onset | None:
        """The clock with which the window begins: τ_rule, or τ_gen of data without a rule; None without either."""
        return self.rule if self.has_rule else self.generation

    @property
    def learned_words(self) -> str:
        """That clock as text, with its name where it is not τ_rule."""
        return str(self.rule) if self.has_rule or self.generation is None else f"τ_gen {self.generation}"

    @property
    def suspected(self) -> float | None:
        """The step since which copying is suspected but not confirmed; None if it is neither."""
        return self.memory.suspected_since

    @property
    def excursion(self) -> float | None:
        """The first step at which copies were above the threshold, if they were below it again later."""
        first = self.memory.suspected
        return first[1] if first is not None and first[1] < self.memory.lower else None

    @property
    def copy_free_until(self) -> float:
        """The last step by which no evaluation was above the threshold of memory, at the confidence of its bounds."""
        first = self.memory.suspected
        return self.memory.lower if first is None else min(self.memory.lower, first[0])

    @property
    def learned_before_suspicion(self) -> bool:
        """Whether it was learned before the first evaluation above the threshold of memory, if there is one."""
        learned = self.learned
        if learned is None or not learned.seen or self.memory.suspected is None:
            return learned is not None and learned.seen
        before, first = self.memory.suspected
        return learned.upper <= before and learned.upper < first  # at step 0 the two are the same evaluation

    @property
    def verdict(self) -> Verdict:
        """Whether the rule is learned before copying: open (yes), suspected (copying, unconfirmed), empty, or unknown.

        open and empty hold at the confidence of the onsets' bounds; suspected: some evaluations are above the threshold
        of memory, but not enough in a row; unknown: the intervals overlap. Where memory comes first, a later rule onset
        does not count as rule learning (P1 C.7). Data without a rule have τ_gen in place of τ_rule.
        """
        if self.suspected is not None:
            return "suspected"
        if self.learned is None:
            return "unknown"
        if self.learned.upper <= self.memory.lower and self.learned_before_suspicion:
            return "open"
        if self.memory.seen and self.memory.upper <= self.learned.lower:
            return "empty"
        return "unknown"

    @property
    def learned_by_memory(self) -> bool:
        """Whether samples became valid only after they had become copies; such a rule clock does not count."""
        return self.has_rule and self.verdict == "empty" and self.rule.seen

    @property
    def window(self) -> tuple[float, float] | None:
        """First and last step of the window; the end is inf while no evaluation is above the threshold of memory.

        It ends before the first evaluation that is above with confidence, even if that did not last.
        """
        if self.verdict not in ("open", "suspected") or not self.learned_before_suspicion or self.learned is None:
            return None
        end = self.memory.lower if self.memory.seen else math.inf
        return self.learned.upper, end if self.memory.suspected is None else min(end, self.memory.suspected[0])

    def __str__(self) -> str:
        excursion = "" if self.excursion is None else excursion_words(self.excursion)
        if self.suspected is not None:
            return f"copying suspected since step {self.suspected:,.0f}, unconfirmed{self.window_words()}{excursion}"
        if self.learned is None or (not self.has_rule and not self.learned.seen):
            return f"no rule: gap and copy clocks only{excursion}"
        if self.learned_by_memory:
            return "empty, rule by memory"
        if self.verdict != "open" or self.window is None:
            return f"{self.verdict}{excursion}"
        begin, end = self.window
        if end == math.inf:
            return f"open from {begin:,.0f}, no end seen"
        return f"open {steps_words(begin, end)}{excursion}"

    def window_words(self) -> str:
        """The window of a run in which copying is suspected, as the end of a sentence; empty if there is none."""
        return "" if self.window is None else f"; window {steps_words(*self.window)}"

    def as_json(self) -> dict[str, Any]:
        window = self.window
        return {
            "tau_rule": self.rule.as_json(),
            **({} if self.generation is None else {"tau_gen": self.generation.as_json()}),
            "tau_mem": self.memory.as_json(),
            **({} if self.extraction is None else {"tau_ext": self.extraction.as_json()}),
            "tau_gap": None if self.gap is None else self.gap.as_json(),
            "parts": {kind: one.as_json() for kind, one in self.parts.items()},
            "change_points": {name: one.as_json() for name, one in self.changes.items()},
            "verdict": self.verdict,
            "suspected": self.suspected,
            "excursion": self.excursion,
            "window": None if window is None else [window[0], None if window[1] == math.inf else window[1]],
            "learned_by_memory": self.learned_by_memory,
        }


def steps_words(begin: float, end: float) -> str:
    """The first and the last step of a window as text: ``400–800``, or ``at 400`` if one evaluation is inside."""
    return f"{begin:,.0f}–{end:,.0f}" if end > begin else f"at {begin:,.0f}"


def excursion_words(step: float) -> str:
    """That copies rose above the threshold and fell again, as the end of a sentence."""
    return f"; copies above the threshold at step {step:,.0f}, later below it again"
