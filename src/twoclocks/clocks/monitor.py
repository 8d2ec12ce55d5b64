"""A monitor for any training loop: tell it a step and samples, it says where training stands and whether to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.settings import ClockSettings
from twoclocks.clocks.window import Clocks
from twoclocks.core.errors import UserError
from twoclocks.core.rows import is_member

Phase = Literal["untrained", "rule", "memorizing"]


@dataclass(frozen=True)
class Decision:
    """What the monitor thinks after an observation."""

    step: int
    phase: Phase
    stop: bool  # memory has begun, by the sustained criterion
    copy_rate: float
    copy_rate_ci: tuple[float, float]  # 95%, exact (Clopper–Pearson), for this observation alone
    copy_chance: float | None  # what a model of the rule alone would copy; None without a rule
    valid_rate: float | None  # None without a rule
    clocks: Clocks


class Monitor:
    """Watches samples for copies of the training set and, given a rule, for validity.

    ``train`` and ``samples`` are integer arrays (n, *shape) of symbols; ``rule`` is optional.

    >>> monitor = Monitor(train=[[0, 1, 1], [1, 0, 1]])
    >>> monitor.observe(100, [[0, 1, 1], [1, 1, 1]]).copy_rate
    0.5
    """

    def __init__(self, train: Any, rule: Any | None = None, settings: ClockSettings | None = None) -> None:
        self.rule, self.settings = rule, settings if settings is not None else ClockSettings()
        if rule is not None and not callable(getattr(rule, "is_valid", None)):
            raise UserError(f"rule: {rule!r} is not a rule; make one with tc.rules.create")
        if not isinstance(self.settings, ClockSettings):
            raise UserError(f"settings: {self.settings!r} is not allowed; use tc.clocks.ClockSettings(…)")
        if rule is not None:
            rule.is_valid(train)  # its shape must fit, and the error should come now
        self._train = np.unique(as_rows(train, "train"), axis=0)
        self.settings.memory_level(self.copy_chance or 0.0)  # refuse now, not in the middle of a training loop
        self._history: list[tuple[int, int, int, int]] = []  # step, valid, copied, trials

    @property
    def copy_chance(self) -> float | None:
        return None if self.rule is None else float(self.rule.copy_chance(len(self._train)))

    def observe(self, step: int, samples: Any) -> Decision:
        """Take the samples of one step; steps must increase."""
        if not isinstance(step, int | np.integer) or step < 0:
            raise UserError(f"step: {step!r} is not allowed; use a whole number of at least 0")
        if self._history and step <= self._history[-1][0]:
            raise UserError(f"step: {step} is not after the last one, {self._history[-1][0]}; observe in order")
        rows = as_rows(samples, "samples")
        if rows.shape[1] != self._train.shape[1]:
            raise UserError(f"samples: rows of {rows.shape[1]} entries, the training set has {self._train.shape[1]}")
        symbols = 1 + int(max(rows.max(), self._train.max()))
        copied = int(is_member(rows, self._train, symbols).sum())
        valid = 0 if self.rule is None else int(self.rule.is_valid(samples).sum())
        self._history.append((int(step), valid, copied, len(rows)))
        return self._decide()

    def clocks(self) -> Clocks:
        if not self._history:
            raise UserError("clocks: nothing was observed yet; call observe first")
        steps, valid, copied, trials = (list(column) for column in zip(*self._history, strict=True))
        clocks = self.settings.read(steps, valid, copied, trials, self.copy_chance or 0.0)
        # Without a rule nothing is known of it: the verdict must not call the window empty.
        return clocks if self.rule is not None else Clocks(Onset(0.0, math.inf, "right-censored"), clocks.memory)

    def _decide(self) -> Decision:
        step, valid, copied, trials = self._history[-1]
        clocks = self.clocks()
        memorizing = clocks.memory.status != "right-censored"
        learned = self.rule is not None and clocks.rule.status != "right-censored"
        return Decision(
            step=step,
            phase="memorizing" if memorizing else "rule" if learned else "untrained",
            stop=memorizing,
            copy_rate=copied / trials,
            copy_rate_ci=exact_interval(copied, trials),
            copy_chance=self.copy_chance,
            valid_rate=None if self.rule is None else valid / trials,
            clocks=clocks,
        )


def as_rows(values: Any, name: str) -> npt.NDArray[np.int64]:
    """Integer rows (n, entries); anything that could be a missing value is refused, never counted as 'not a copy'."""
    array = np.asarray(values.cpu() if hasattr(values, "cpu") else values)
    if array.dtype.kind not in "iub":
        raise UserError(f"{name}: dtype {array.dtype} is not allowed; give integer symbols, decoded from the samples")
    if array.ndim < 2 or array.size == 0:
        raise UserError(f"{name}: shape {array.shape} is not allowed; give at least one row, as (n, entries)")
    if array.min() < 0:
        raise UserError(f"{name}: {array.min()} is not a symbol; give integers from 0 upwards")
    return array.reshape(len(array), -1).astype(np.int64)


def exact_interval(hits: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper–Pearson interval of a proportion."""
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, trials - hits + 1))
    high = 1.0 if hits == trials else float(beta.ppf(1 - tail, hits + 1, trials - hits))
    return low, high
