"""The innovation window: what lies between the two clocks, and whether it is certain that anything does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from twoclocks.clocks.onset import Onset

Verdict = Literal["open", "empty", "unknown"]


@dataclass(frozen=True)
class Clocks:
    """Both onsets of one run and what they say together."""

    rule: Onset
    memory: Onset

    @property
    def verdict(self) -> Verdict:
        """open: the rule is surely learned before memory begins; empty: surely not; unknown: the intervals cannot say.

        Where memory comes first, a later rule onset does not count as rule learning (P1 C.7).
        """
        if self.rule.status != "right-censored" and self.rule.upper <= self.memory.lower:
            return "open"
        if self.memory.status != "right-censored" and self.memory.upper <= self.rule.lower:
            return "empty"
        return "unknown"

    @property
    def window(self) -> tuple[float, float] | None:
        """The steps during which the window is surely open; the end is inf while memory has not begun."""
        if self.verdict != "open":
            return None
        still_open = self.memory.status == "right-censored"
        return self.rule.upper, self.memory.upper if still_open else self.memory.lower

    def __str__(self) -> str:
        if self.window is None:
            return self.verdict
        begin, end = self.window
        if end == float("inf"):
            return f"open from {begin:,.0f}, no end seen"
        return f"open {begin:,.0f}–{end:,.0f}" if end > begin else f"open at {begin:,.0f}"

    def as_json(self) -> dict[str, Any]:
        window = self.window
        return {
            "tau_rule": self.rule.as_json(),
            "tau_mem": self.memory.as_json(),
            "verdict": self.verdict,
            "window": None if window is None else [window[0], None if window[1] == float("inf") else window[1]],
        }
