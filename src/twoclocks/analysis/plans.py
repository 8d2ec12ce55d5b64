"""Plan a run before it is trained: both clocks at its size from small pilots, and what they mean for its budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from twoclocks.analysis.budgets import Budget, read_budget, seconds_of
from twoclocks.analysis.forecasts import Judgement, check_kind, judge_each_size, judge_largest_size
from twoclocks.analysis.gains import Gain
from twoclocks.analysis.laws import NAMES, Clock, Point, law_of, read_points
from twoclocks.clocks.forecast import Forecast, forecast_size
from twoclocks.clocks.law import Law
from twoclocks.core.errors import SettingError, UserError
from twoclocks.rules import RULES
from twoclocks.runs.load import Run

Verdict = Literal["safe", "may cross", "crosses"]
Window = Literal["open", "empty", "unknown"]
Reach = Literal["yes", "no", "maybe", "unknown"]
FAR = 4  # times the largest pilot size, beyond which a plan warns
MOST_SAMPLES = 10**15


@dataclass(frozen=True)
class Prediction:
    """A clock at the planned size, from the law of the pilots, and how good such predictions were on the pilots."""

    clock: Clock
    law: Law
    forecast: Forecast  # median and 95% prediction interval of one run
    sizes: Judgement  # each size left out in turn
    largest: Judgement  # the largest size, from the smaller ones: an extrapolation, as a plan is
    left_out: tuple[str, ...]  # pilots that were not used, each with the reason

    @property
    def name(self) -> str:
        return NAMES[self.clock]

    def as_json(self) -> dict[str, Any]:
        return {
            "clock": self.clock,
            **self.forecast.as_json(),
            "law": self.law.as_json(),
            "left_out_sizes": self.sizes.as_json(),
            "left_out_largest": self.largest.as_json(),
            "left_out_runs": list(self.left_out),
        }


@dataclass(frozen=True)
class Missing:
    """A clock without a prediction, and why."""

    clock: Clock
    reason: str

    @property
    def name(self) -> str:
        return NAMES[self.clock]

    def as_json(self) -> dict[str, Any]:
        return {"clock": self.clock, "reason": self.reason}


@dataclass(frozen=True)
class Plan:
    """What to expect of a run of ``n`` training samples, and when to stop it."""

    n: int
    rule: str  # of the pilots
    budget: Budget
    memory: Prediction
    learned: Prediction | Missing  # τ_rule, or τ_gen of data without a rule
    gains: tuple[Gain, ...] = ()

    @property
    def stop(self) -> int:
        """The last step at which 97.5% of such runs have not begun to copy; 0 where the pilots name none."""
        return stop_step(self.memory.forecast)

    @property
    def verdict(self) -> Verdict:
        """Whether the budget goes beyond τ_mem."""
        after = reach(self.budget.steps, self.memory.forecast)
        return "crosses" if after == "yes" else "safe" if after == "no" else "may cross"

    @property
    def window(self) -> Window:
        """Whether the window between learning and copying is expected to be open."""
        return window_of(self.memory.forecast, self.learned_forecast)

    @property
    def reaches(self) -> Reach:
        """Whether the budget is long enough to learn."""
        found = self.learned_forecast
        return "unknown" if found is None else reach(self.budget.steps, found)

    @property
    def learned_forecast(self) -> Forecast | None:
        return None if isinstance(self.learned, Missing) else self.learned.forecast

    @property
    def factor(self) -> float:
        """The planned size, relative to the largest pilot; of a size below all pilots, relative to the smallest."""
        sizes = self.memory.law.sizes
        return self.n / (max(sizes) if self.n > min(sizes) else min(sizes))

    @property
    def is_far(self) -> bool:
        """Whether the planned size lies so far from the pilots that their law need not hold there."""
        return not 1 / FAR <= self.factor <= FAR

    def with_gain(self, gain: Gain) -> tuple[Forecast, Window]:
        """τ_mem and the window with an intervention; effects that were not found change nothing."""
        memory, learned = self.memory.forecast, self.learned_forecast
        if gain.memory is not None:
            memory = gain.memory.applied(memory)
        if gain.learned is not None and learned is not None:
            learned = gain.learned.applied(learned)
        return memory, window_of(memory, learned)

    def as_json(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "rule": self.rule,
            "budget": self.budget.as_json(),
            "stop": self.stop,
            "budget_and_tau_mem": self.verdict,
            "window": self.window,
            "budget_reaches_learning": self.reaches,
            "times_largest_pilot": self.n / max(self.memory.law.sizes),
            "tau_mem": self.memory.as_json(),
            "learned": self.learned.as_json(),
            "interventions": [self.gain_json(gain) for gain in self.gains],
        }

    def gain_json(self, gain: Gain) -> dict[str, Any]:
        found = gain.as_json()
        if gain.memory is None or not gain.memory.found:
            return {**found, "stop": None}
        memory, window = self.with_gain(gain)
        return {**found, "expected": memory.as_json(), "stop": stop_step(memory), "window": window}


def plan_run(runs: Sequence[Run], n: int, budget: str, gains: Sequence[Gain] = ()) -> Plan:
    """A plan for a run of n training samples from finished pilots of other sizes; UserError without a law of τ_mem.

    ``budget``: steps such as ``"20000"``, or a time such as ``"2h"``.
    """
    if not 2 <= n <= MOST_SAMPLES:
        raise SettingError("--n", n, f"use a number of training samples, from 2 to {MOST_SAMPLES:,}")
    seconds_of(budget)  # a wrong one is refused before laws are fitted
    memory, points = predict(runs, "tau_mem", n)
    pilots = [point.run for point in points]
    clock: Clock = "tau_rule" if pilots[0].clocks(changes=False).has_rule else "tau_gen"
    learned: Prediction | Missing
    try:
        learned = predict(runs, clock, n)[0]
    except UserError as error:
        learned = Missing(clock, str(error))
    rule = RULES.name_of(pilots[0].settings.rule)
    return Plan(n, rule, read_budget(budget, pilots), memory, learned, tuple(gains))


def predict(runs: Sequence[Run], clock: Clock, n: int) -> tuple[Prediction, list[Point]]:
    """One clock at a size, and the points whose law predicts it; UserError if they do not identify a law."""
    points, left_out = read_points(runs, clock)
    check_kind(points)
    law = law_of(points)
    records = judge_each_size(points), judge_largest_size(points)
    return Prediction(clock, law, forecast_size(law, n), *records, tuple(left_out)), points


def stop_step(memory: Forecast) -> int:
    """The lower end of the prediction interval of τ_mem, as a whole step."""
    return math.floor(memory.low)


def reach(steps: int, clock: Forecast) -> Literal["yes", "no", "maybe"]:
    """Whether so many steps go beyond a clock: later than its interval, earlier, or inside."""
    return "yes" if steps > clock.high else "no" if steps < clock.low else "maybe"


def window_of(memory: Forecast, learned: Forecast | None) -> Window:
    """Open: learned before the step to stop at. Empty: learned only after copying began. Both at 95%."""
    if learned is None:
        return "unknown"
    if learned.high < stop_step(memory):
        return "open"
    return "empty" if learned.low > memory.high else "unknown"
