"""A monitor for any training loop: tell it a step and samples, it says where training stands and whether to stop."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from twoclocks.clocks.forecast import Forecast, forecast_run
from twoclocks.clocks.looks import least_samples, rate_bounds
from twoclocks.clocks.series import Look, Series
from twoclocks.clocks.settings import PLAIN, POLICIES, ClockSettings, Policy
from twoclocks.clocks.window import Clocks
from twoclocks.core.config import to_mapping
from twoclocks.core.constants import CHANCE_SAMPLES
from twoclocks.core.errors import SettingError, UnknownNameError, UserError
from twoclocks.monitor.copies import CRITERIA, Criterion, Exact, as_array, as_rows, distinct
from twoclocks.monitor.record import Record

MonitorPhase = Literal["untrained", "rule", "memorizing"]
FORMAT = 1  # of the stored state

log = logging.getLogger("twoclocks")


@dataclass(frozen=True)
class Decision:
    """What the monitor thinks after an observation."""

    step: int
    phase: MonitorPhase
    stop: bool
    reason: str  # why to stop, or why not, in a sentence
    copy_rate: float
    copy_rate_ci: tuple[float, float]  # valid at all looks together: peeking does not spoil it
    copy_chance: float | None  # what a model of the rule alone would copy; None where it is not known
    valid_rate: float | None  # None without a rule
    clocks: Clocks
    ahead: Callable[[], Forecast | None] = field(repr=False)

    @cached_property
    def forecast(self) -> Forecast | None:
        """Of τ_mem, made when it is first asked for; None once memory has begun."""
        return self.ahead()


class Monitor:
    """Watches samples for copies of the training set and, given a rule, for validity; given losses, their gap.

    ``train`` and ``samples`` are arrays (n, *shape) of whole numbers or of fractions. ``copies`` says what a copy is:
    "exact", "hamming", "ratio", or a criterion of ``twoclocks.monitor.copies``. ``held_out``: real samples that were
    not trained on, whose rate of copies is the chance level; a rule knows it without them. ``policy`` says when to
    stop (``POLICIES``); by default as the settings say, or else "memory".

    >>> monitor = Monitor(train=[[0, 1, 1], [1, 0, 1]])
    >>> monitor.observe(100, [[0, 1, 1], [1, 1, 1]]).copy_rate
    0.5
    """

    def __init__(
        self,
        train: Any,
        rule: Any | None = None,
        settings: ClockSettings | None = None,
        *,
        copies: str | Criterion = "exact",
        held_out: Any | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.rule = rule
        self.settings = settings if settings is not None else ClockSettings()
        if rule is not None and not callable(getattr(rule, "is_valid", None)):
            raise UserError(f"rule: {rule!r} is not a rule; make one with tc.rules.create")
        if not isinstance(self.settings, ClockSettings):
            raise UserError(f"settings: {self.settings!r} is not allowed; use tc.clocks.ClockSettings(…)")
        self.policy = self._policy(policy)
        if rule is not None and not (valid := np.asarray(rule.is_valid(train))).all():
            raise UserError(f"train: {int((~valid).sum())} rows break the rule; remove them, or leave the rule out")
        self.criterion = criterion_of(copies)
        self._train = distinct(as_rows(train, "train"))
        self.criterion.check(self._train)
        self.copy_chance = self._chance(held_out)
        self._level = self.settings.memory_level(self.copy_chance or 0.0)  # refuse now, not in the midst of training
        self._record = Record(with_rule=rule is not None)

    def _policy(self, given: Policy | None) -> Policy:
        chosen = given if given is not None else self.settings.stop if self.settings.stop != "never" else "memory"
        if chosen not in get_args(Policy):
            raise UnknownNameError("policy", chosen, POLICIES)
        if chosen == "rule" and self.rule is None:
            raise SettingError("policy", chosen, "it needs a rule; give one, or use memory or caution")
        return chosen

    def _chance(self, held_out: Any | None) -> float | None:
        """How often a true sample would count as a copy; None where nobody can know, which then counts as 0."""
        if held_out is not None:
            return float(self.criterion.found(self._fitting(held_out, "held_out"), self._train).mean())
        if isinstance(self.criterion, Exact):
            return None if self.rule is None else float(self.rule.copy_chance(len(self._train)))
        if self.rule is not None:
            true = self._fitting(self.rule.sample(CHANCE_SAMPLES, seed=0), "rule")
            return float(self.criterion.found(true, self._train).mean())
        name = self.criterion.name
        log.warning(f"copies: how often a true sample counts as one by chance ({name}) is not known; give held_out")
        return None

    def _fitting(self, values: Any, name: str) -> Any:
        rows = as_rows(values, name)
        if rows.shape[1] != self._train.shape[1]:
            raise UserError(f"{name}: rows of {rows.shape[1]} entries, the training set has {self._train.shape[1]}")
        if (rows.dtype.kind == "f") != (self._train.dtype.kind == "f"):
            kind = "fractions" if rows.dtype.kind == "f" else "whole numbers"
            raise UserError(
                f"{name}: {kind}, the training set is not; decode both to symbols, or give both as fractions"
            )
        return rows

    def observe(
        self,
        step: int,
        samples: Any | Callable[[], Any],
        train_loss: Any | None = None,
        held_out_loss: Any | None = None,
    ) -> Decision:
        """Take the samples of one step (or a function that makes them); steps must increase.

        Losses may be single numbers or one number a sample, from which their uncertainty is known.
        """
        self._record.check_step(step)
        if (train_loss is None) != (held_out_loss is None):
            raise UserError("train_loss: the gap needs held_out_loss and train_loss; give both or none")
        gap, error = (None, None) if train_loss is None else gap_of(train_loss, held_out_loss)
        given = samples() if callable(samples) else samples
        rows = self._fitting(given, "samples")
        copied = int(self.criterion.found(rows, self._train).sum())
        return self.observe_counts(Look(int(step), copied, len(rows), self._valid(given, len(rows)), gap, error))

    def _valid(self, given: Any, n: int) -> int | None:
        if self.rule is None:
            return None
        valid = np.asarray(self.rule.is_valid(given))
        if valid.shape != (n,):
            raise UserError(f"rule: is_valid returned the shape {valid.shape} for {n} samples; return one value each")
        return int(valid.sum())

    def observe_counts(self, look: Look) -> Decision:
        """Take counts in place of samples, where they are known already."""
        self.record(look)
        return self.decision()

    def record(self, look: Look) -> None:
        """Take counts and think later."""
        if self.policy == "caution" and not len(self._record):
            self._check_enough(look)
        self._record.add(look)

    @property
    def last_step(self) -> int | None:
        """Of the last observation."""
        return self._record.last_step

    def _check_enough(self, look: Look) -> None:
        need = least_samples(self.copy_chance or 0.0, self._level, 1, self._confidence)
        if look.trials < need:
            fix = f"policy caution cannot exclude copies above {self._level:.3g} with them; give at least {need}"
            raise UserError(f"samples: {look.trials} are too few; {fix}, more where there are many looks")

    @property
    def _confidence(self) -> float:
        return self.settings.confidence or PLAIN

    def series(self) -> Series:
        """All that was counted."""
        return self._record.series(self.criterion.name)

    def clocks(self) -> Clocks:
        if not len(self._record):
            raise UserError("clocks: nothing was observed yet; call observe first")
        return self.settings.read(self.series(), self.copy_chance or 0.0)

    def decision(self) -> Decision:
        """What is to be thought after the last observation."""
        if not len(self._record):
            raise UserError("decision: nothing was observed yet; call observe first")
        series, last = self.series(), self._record.looks[-1]
        clocks = self.settings.read(series, self.copy_chance or 0.0, changes=False)
        copied, trials = (np.asarray(values, dtype=np.float64) for values in (series.copied, series.trials))
        # Either end of an interval may err; a policy looks at one end alone.
        low, high = (float(ends[-1]) for ends in rate_bounds(copied, trials, (1 + self._confidence) / 2))
        most = float(rate_bounds(copied, trials, self._confidence)[1][-1])
        learned = self.rule is not None and clocks.rule.seen
        phase: MonitorPhase = "memorizing" if clocks.memory.seen else "rule" if learned else "untrained"
        stop, reason = self._judge(clocks, most)

        def ahead() -> Forecast | None:
            if clocks.memory.seen or last.step == 0:
                return None
            return forecast_run(series.steps, series.copied, series.trials, self._level, self.copy_chance or 0.0)

        return Decision(
            step=last.step,
            phase=phase,
            stop=stop,
            reason=reason,
            copy_rate=last.copied / last.trials,
            copy_rate_ci=(low, high),
            copy_chance=self.copy_chance,
            valid_rate=None if last.valid is None else last.valid / last.trials,
            clocks=clocks,
            ahead=ahead,
        )

    def _judge(self, clocks: Clocks, high: float) -> tuple[bool, str]:
        sure = f"{self._confidence:.0%}"
        if self.policy == "rule":
            return clocks.rule.seen, f"the rule: {clocks.rule}"
        if self.policy == "memory":
            return clocks.memory.seen, f"memory: {clocks.memory}"
        if self.policy == "caution":
            relation = "may reach" if high > self._level else "stay below"
            return high > self._level, f"copies {relation} {high:.3g} (threshold {self._level:.3g}, {sure} sure)"
        return False, "policy never"

    def state(self) -> dict[str, Any]:
        """Everything seen so far as plain values; ``load_state`` of a monitor of the same training set takes it."""
        looks = [vars(look) for look in self._record.looks]
        return {"format": FORMAT, "about": self._about(), "looks": looks}

    def _about(self) -> dict[str, Any]:
        train = hashlib.sha256(self._train.tobytes()).hexdigest()
        settings = {key: value for key, value in to_mapping(self.settings).items() if key != "stop"}
        plain = {"copies": self.criterion.name, "rule": None if self.rule is None else type(self.rule).__qualname__}
        return {"train": train, "settings": settings, "copy_chance": self.copy_chance, **plain}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken; one of another training set, rule, criterion or thresholds is refused."""
        if not isinstance(state, Mapping) or state.get("format") != FORMAT:
            raise UserError("state: it is not the state of a monitor; give what state() returned")
        there = state.get("about", {})
        for key, value in self._about().items():
            if there.get(key) != value:
                raise UserError(f"state: its {key} is {there.get(key)}, this monitor's {value}; use the same")
        fresh = Record(with_rule=self.rule is not None)
        try:
            for look in state["looks"]:
                fresh.add(Look(**look))
        except (KeyError, TypeError, UserError) as error:
            raise UserError(f"state: its looks are damaged ({error}); give what state() returned") from None
        self._record = fresh

    def save(self, path: Path | str) -> None:
        """Write the state as JSON, whole or not at all."""
        path = Path(path)
        draft = path.with_name(path.name + ".new")
        draft.write_text(json.dumps(self.state()), encoding="utf-8")
        os.replace(draft, path)

    def load(self, path: Path | str) -> None:
        """Read what ``save`` wrote."""
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(
                f"{path}: cannot be read as a monitor's state ({error}); give a file that save wrote"
            ) from None
        self.load_state(state)


def criterion_of(copies: str | Criterion) -> Criterion:
    if isinstance(copies, Criterion):
        return copies
    if copies not in CRITERIA:
        raise UnknownNameError("copies", str(copies), CRITERIA)
    return CRITERIA[copies]


def gap_of(train: Any, held_out: Any) -> tuple[float, float | None]:
    """Held-out minus training loss and its standard error, which single numbers do not tell."""
    means, variances = [], []
    for name, values in (("train_loss", train), ("held_out_loss", held_out)):
        array = as_array(values, name).astype(np.float64).ravel()
        if array.size == 0 or not np.isfinite(array).all():
            raise UserError(f"{name}: it is empty or not finite; give a number, or one a sample")
        means.append(float(array.mean()))
        variances.append(float(array.var(ddof=1)) / array.size if array.size > 1 else None)
    known = [value for value in variances if value is not None]
    return means[1] - means[0], float(np.sqrt(sum(known))) if len(known) == 2 else None
