"""A plan as text: the advice first, then what it rests on."""

from __future__ import annotations

import math

from twoclocks.analysis.forecasts import Judgement
from twoclocks.analysis.gains import Gain, Ratio
from twoclocks.analysis.plans import FAR, Missing, Plan, Prediction, stop_step
from twoclocks.clocks.forecast import Forecast

LEARNED = {"tau_rule": "the rule is learned", "tau_gen": "samples are good"}
LARGEST_SHOWN = 1e12  # larger numbers of steps are written as powers of ten
UNEVEN_PACE = 2.0  # slowest pilot over fastest, from which on a budget in hours is called uncertain


def plan_rows(plan: Plan) -> list[dict[str, str]]:
    """One row per clock: prediction, and the record on pilots that were left out."""
    return [clock_row(one) for one in (plan.learned, plan.memory)]


def clock_row(one: Prediction | Missing) -> dict[str, str]:
    row = {"clock": one.name}
    if isinstance(one, Missing):
        return row | {"median": "none", "95% interval": "", "each size left out": "", "largest left out": ""}
    records = {"each size left out": record(one.sizes), "largest left out": record(one.largest)}
    return row | {"median": steps(one.forecast.median), "95% interval": interval(one.forecast)} | records


def record(judged: Judgement) -> str:
    """``15 of 16 held, width ×1.9``: coverage and width of intervals on runs that were left out."""
    if not judged.tried:
        return "not tested"
    width = "no upper end" if judged.width is None else f"width ×{factor(judged.width)}"
    return f"{judged.held} of {judged.tried} held, {width}"


def gain_rows(plan: Plan) -> list[dict[str, str]]:
    """One row per intervention: what was measured, and what it would do at the planned size."""
    return [gain_row(plan, gain) for gain in plan.gains]


def gain_row(plan: Plan, gain: Gain) -> dict[str, str]:
    measured, memory = gain.memory, plan.with_gain(gain)[0]
    row = {"intervention": gain.intervention, "measured at": "size unknown" if gain.n is None else f"N = {gain.n:,}"}
    if measured is None:
        return row | {"ratio of τ_mem (95%)": "not estimated", "τ_mem": "", "stop at": "no effect found"}
    row["ratio of τ_mem (95%)"] = ratio_words(measured)
    if not measured.found or measured.best is None:
        return row | {"τ_mem": "", "stop at": "no effect found"}
    return row | {"τ_mem": f"{measured.bound} {steps(memory.median)}".strip(), "stop at": steps(stop_step(memory))}


def ratio_words(ratio: Ratio) -> str:
    """``×1.8 (1.4 to 2.3)``; without an estimate the bound alone."""
    if ratio.estimate is None:
        return f"{ratio.bound} ×{factor(ratio.best)}" if ratio.best is not None else "anything"
    end = f"{factor(ratio.low)} to {factor(ratio.high)}" if math.isfinite(ratio.high) else f"above {factor(ratio.low)}"
    return f"×{factor(ratio.estimate)} ({end})"


def sentences(plan: Plan) -> list[str]:
    """The advice, what the budget reaches, and what both rest on."""
    found = [advice(plan), budget_sentence(plan), learning_sentence(plan)]
    found += [sentence for sentence in (pace_sentence(plan), *cautions(plan), *gain_sentences(plan)) if sentence]
    return found


def advice(plan: Plan) -> str:
    if plan.stop < 1:
        return "No step to stop at can be named: the interval of τ_mem begins before step 1. Train more pilots."
    free = "if the law of the pilots holds, 97.5% of such runs have not begun to copy by"
    if plan.verdict == "safe":
        return f"Train all {steps(plan.budget.steps)} steps: {free} step {steps(plan.stop)}."
    return f"Stop at step {steps(plan.stop)}: {free} then."


def budget_sentence(plan: Plan) -> str:
    words = {
        "safe": "is safe: it ends before the interval of τ_mem",
        "may cross": "may cross τ_mem: it ends inside its interval",
        "crosses": "crosses τ_mem: it ends after its interval",
    }
    end = f"{words[plan.verdict]}, {interval(plan.memory.forecast)}"
    return f"The budget of {steps(plan.budget.steps)} steps {end}."


def learning_sentence(plan: Plan) -> str:
    """Whether the budget is long enough to learn, and whether that comes before copying."""
    one = plan.learned
    if isinstance(one, Missing):
        kind = "" if one.clock == "tau_rule" else "These data have no rule. "
        return f"{kind}There is no law of {one.name}, so the window is unknown: {one.reason}."
    reaches = {
        "yes": f"The budget reaches {one.name}",
        "no": f"The budget ends before {one.name}",
        "maybe": f"The budget may end before {one.name}",
        "unknown": "",
    }[plan.reaches]
    what = LEARNED[one.clock]
    window = {
        "open": f"the window is expected to be open: {what} before step {steps(plan.stop)}",
        "empty": f"the window is expected to be empty: copying begins before {what}. Use more training samples",
        "unknown": f"whether the window is open is unknown: the intervals of {one.name} and τ_mem overlap",
    }[plan.window]
    return f"{reaches}, and {window}."


def pace_sentence(plan: Plan) -> str:
    pace = plan.budget.pace
    if pace is None:
        return ""
    range_words = ""
    if pace.slowest > UNEVEN_PACE * pace.fastest:
        range_words = f", from {pace.fastest:.2g} to {pace.slowest:.2g} s between pilots"
    number = "1 pilot" if pace.runs == 1 else f"{pace.runs:,} pilots"
    return (
        f"A budget of {plan.budget.words} is {steps(plan.budget.steps)} steps at {pace.median:.2g} s per training step "
        f"(median of {number}{range_words}), without evaluations, on the machine and with the batch of the pilots."
    )


def cautions(plan: Plan) -> list[str]:
    """What may make the plan wrong."""
    found = []
    sizes = plan.memory.law.sizes
    if plan.is_far:
        end, where = (max(sizes), "largest") if plan.factor > 1 else (min(sizes), "smallest")
        times = f"{factor(plan.factor)} times" if plan.factor > 1 else f"1/{factor(1 / plan.factor)} of"
        found.append(
            f"Warning: N = {plan.n:,} is {times} the {where} pilot ({end:,}), more than a factor of {FAR} away: "
            "the law need not hold there."
        )
    if weak := plan.memory.law.weakness:
        found.append(f"Warning: the pilots show no power law of τ_mem ({weak}).")
    predictions = [one for one in (plan.memory, plan.learned) if isinstance(one, Prediction)]
    if untested := [one.name for one in predictions if not one.largest.tried]:
        found.append(
            f"How well the law of {' and of '.join(untested)} extrapolates was not tested: at least 3 sizes must lie "
            "below one with an observed onset."
        )
    for one in predictions:
        if one.largest.tried and one.largest.held < one.largest.tried:
            missed = one.largest.tried - one.largest.held
            found.append(
                f"Warning: {one.largest.how}, the law missed {one.name} in {missed} of {one.largest.tried} runs; "
                "this plan extrapolates in the same way."
            )
        if one.left_out:
            runs = "1 pilot is" if len(one.left_out) == 1 else f"{len(one.left_out):,} pilots are"
            found.append(f"{runs} left out of the law of {one.name}; the first is {one.left_out[0]}.")
    return found


def gain_sentences(plan: Plan) -> list[str]:
    """Where interventions were measured, and which of them change the advice."""
    found = []
    for gain in plan.gains:
        if gain.memory is None or not gain.memory.found:
            continue
        memory, window = plan.with_gain(gain)
        stop = stop_step(memory)
        if stop > plan.stop:
            found.append(
                f"With {gain.intervention}, stop at step {steps(stop)} in place of {steps(plan.stop)}; "
                f"the window is then {window}."
            )
        elif memory.median < plan.memory.forecast.median:
            found.append(f"Do without {gain.intervention}: with it, copying begins earlier (stop at {steps(stop)}).")
    places = dict.fromkeys((gain.base, gain.n, gain.rule) for gain in plan.gains)
    for base, n, rule in places:
        size = "an unknown size" if n is None else f"N = {n:,}"
        other = "" if rule in (None, plan.rule) else f", while the pilots have the rule {plan.rule}"
        of_rule = "" if rule is None else f", rule {rule}{other}"
        found.append(
            f"Interventions were measured at {size} on the base {base}{of_rule}. That their factors hold at "
            f"N = {plan.n:,}, each alone, is an assumption."
        )
    return found


def interval(forecast: Forecast) -> str:
    """``800 to 1,200``, or ``after 800``."""
    if math.isinf(forecast.high):
        return f"after {steps(forecast.low)}"
    return f"{steps(forecast.low)} to {steps(forecast.high)}"


def steps(number: float) -> str:
    """A number of steps with separators.

    >>> steps(12300.4), steps(2e15)
    ('12,300', '2.0e+15')
    """
    return f"{number:,.0f}" if number < LARGEST_SHOWN else f"{float(number):.1e}"


def factor(ratio: float) -> str:
    """A ratio with as many digits as mean something.

    >>> factor(1.234), factor(12.34), factor(1234.5)
    ('1.2', '12', '1,234')
    """
    return f"{ratio:.2g}" if ratio < 100 else f"{ratio:,.0f}" if ratio < LARGEST_SHOWN else f"{ratio:.1e}"


RECORD = (
    "Record: pilots of a size that was left out, predicted from the others. Held: the interval contains the onset. "
    "Width: upper end divided by lower end, median."
)
