"""The innovation window: the steps between the two clocks, and whether the intervals show that there are any."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from twoclocks.clocks.onset import Onset

Verdict = Literal["open", "empty", "unknown"]
NO_RULE = Onset(0.0, math.inf, "right-censored", definition="no rule is known")


@dataclass(frozen=True)
class Clocks:
    """All onsets of one run, and the innovation window between them."""

    rule: Onset
    memory: Onset
    gap: Onset | None = None  # of held-out loss minus training loss; None if it was not measured
    parts: Mapping[str, Onset] = field(default_factory=dict)  # rows, columns, layers, …: when each kind is learned
    changes: Mapping[str, Onset] = field(default_factory=dict)  # of "rule" and "memory", by change point

    @property
    def verdict(self) -> Verdict:
        """Whether the rule is learned before memory begins: open (yes), empty (no), or unknown.

        open and empty hold at the confidence of the onsets' bounds; unknown: the intervals overlap. Where memory comes
        first, a later rule onset does not count as rule learning (P1 C.7).
        """
        if self.rule.definition == NO_RULE.definition:
            return "unknown"
        if self.rule.seen and self.rule.upper <= self.memory.lower:
            return "open"
        if self.memory.seen and self.memory.upper <= self.rule.lower:
            return "empty"
        return "unknown"

    @property
    def learned_by_memory(self) -> bool:
        """Whether samples became valid only after they had become copies; such a rule clock does not count."""
        return self.verdict == "empty" and self.rule.seen

    @property
    def window(self) -> tuple[float, float] | None:
        """First and last step of the window, at the bounds' confidence; the end is inf while memory has not begun."""
        if self.verdict != "open":
            return None
        return self.rule.upper, self.memory.lower if self.memory.seen else math.inf

    def __str__(self) -> str:
        if self.window is None:
            return f"{self.verdict}, rule by memory" if self.learned_by_memory else self.verdict
        begin, end = self.window
        if end == math.inf:
            return f"open from {begin:,.0f}, no end seen"
        return f"open {begin:,.0f}–{end:,.0f}" if end > begin else f"open at {begin:,.0f}"

    def as_json(self) -> dict[str, Any]:
        window = self.window
        return {
            "tau_rule": self.rule.as_json(),
            "tau_mem": self.memory.as_json(),
            "tau_gap": None if self.gap is None else self.gap.as_json(),
            "parts": {kind: one.as_json() for kind, one in self.parts.items()},
            "change_points": {name: one.as_json() for name, one in self.changes.items()},
            "verdict": self.verdict,
            "window": None if window is None else [window[0], None if window[1] == math.inf else window[1]],
            "learned_by_memory": self.learned_by_memory,
        }
