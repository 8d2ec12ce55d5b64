"""How long a run will still take, from the times of its evaluations so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Pace:
    """Training and evaluations are timed apart, since most evaluations are at the start.

    >>> pace = Pace(100, {"steps": [10, 20, 100]})
    >>> pace.add({"step": 10, "seconds": 15.0, "evaluation_seconds": 5.0})
    >>> pace.add({"step": 20, "seconds": 30.0, "evaluation_seconds": 5.0})
    >>> pace.left()  # 80 steps of 1 s, one evaluation of 5 s
    85.0
    """

    def __init__(self, steps: int | None, evaluation: Mapping[str, Any]) -> None:
        self.steps = steps
        schedule = evaluation.get("steps")
        self.schedule = sorted(schedule) if isinstance(schedule, list) else None
        self.planned = evaluation.get("evaluations", 0) if self.schedule is None else len(self.schedule)
        self.restart()

    def restart(self) -> None:
        self.step, self.seconds, self.evaluating, self.evaluations = 0, 0.0, 0.0, 0

    def add(self, row: Mapping[str, Any]) -> None:
        """One row of timings.jsonl."""
        self.step, self.seconds = int(row["step"]), row["seconds"]
        self.evaluating += row["evaluation_seconds"]
        self.evaluations += 1

    def left(self) -> float | None:
        """Seconds from the last evaluation to the end; None where nothing was timed yet."""
        if not self.evaluations or not self.step or self.steps is None:
            return None
        training = (self.seconds - self.evaluating) / self.step * (self.steps - self.step)
        due = max(0, self.planned - self.evaluations)
        return max(0.0, training + due * self.evaluating / self.evaluations)
