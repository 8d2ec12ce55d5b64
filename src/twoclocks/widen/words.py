"""The findings of an experiment as sentences and as tables of text."""

from __future__ import annotations

import math

from twoclocks.clocks.effects import Effect
from twoclocks.evaluation.diversity import DistinctNew
from twoclocks.evaluation.whole_samples import SampleAccuracy, ValidNew
from twoclocks.runs.columns import LOSS_HELD_OUT
from twoclocks.widen.findings import ArmResult, Findings
from twoclocks.widen.run_result import Outcome

CHANGES: dict[Outcome, tuple[str, str]] = {  # what a ratio above 1 means, and one below
    "learned": ("later", "earlier"),
    "memory": ("later", "earlier"),
    "window": ("wider", "narrower"),
}
ALIKE = 0.02  # |ln| of the cost of a step relative to the base, below which units need no sentence
QUALITIES = {  # columns of quality, as headings
    SampleAccuracy.name: "valid",
    ValidNew.name: "valid and new",
    DistinctNew.name: "different among these",
    LOSS_HELD_OUT: "held-out loss",
}
SUBJECTS: dict[Outcome, str] = {"memory": "copying begins", "learned": "the rule is learned", "window": "the window is"}


def number(ratio: float) -> str:
    """A ratio with as many digits as mean something.

    >>> number(1.234), number(12.34), number(0.046)
    ('1.23', '12.3', '0.046')
    """
    return f"{ratio:.3g}" if ratio < 10 else f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}"


def interval_words(effect: Effect) -> str:
    """``1.2 to 3.4``, ``above 2.1``, ``below 0.8``, or ``anything``."""
    low, high = effect.interval
    if low == 0 and math.isinf(high):
        return "anything"
    if math.isinf(high):
        return f"above {number(low)}"
    return f"below {number(high)}" if low == 0 else f"{number(low)} to {number(high)}"


def ratio_words(effect: Effect) -> str:
    """``×1.8 (95%: 1.4 to 2.3)``; without a finite estimate only the interval."""
    if not 0 < effect.ratio < math.inf:
        return f"95%: {interval_words(effect)}"
    return f"×{number(effect.ratio)} (95%: {interval_words(effect)})"


def sentence(one: ArmResult, has_rule: bool) -> str:
    """What an intervention does: effects that were found, then those that were not."""
    found, missed = [], []
    for outcome in ("memory", "learned", "window"):
        effect = one.effects.get(outcome)
        if effect is None:
            continue
        subject = SUBJECTS[outcome]
        if outcome == "learned" and not has_rule:
            subject = "samples are good"
        if effect.is_found:
            later = effect.ratio > 1
            found.append(f"{subject} {CHANGES[outcome][not later]}, {ratio_words(effect)}")
        else:
            names = {"memory": "τ_mem", "learned": "τ_rule" if has_rule else "τ_gen", "window": "the window"}
            uneven = ", seeds differ much" if effect.uneven else ""
            missed.append(f"{names[outcome]} {ratio_words(effect)}{uneven}")
    words = "; ".join(found) + "." if found else ""
    if missed:
        words += f" No effect found on: {'; '.join(missed)}."
    words += unit_words(one)
    if one.closed:
        words += f" The window is not open in {one.closed} of {len(one.runs)} runs."
    diverged = sum(run.status == "diverged" for run in one.runs)
    if diverged:
        words += f" {diverged} of {len(one.runs)} runs diverged."
    return f"{one.arm.name}: {words.strip() or 'nothing could be estimated.'}"


def unit_words(one: ArmResult) -> str:
    """The window in other units, where a step does not cost what one of the base does: steps alone would mislead."""
    names = {"samples": "samples seen", "operations": "floating-point operations"}
    found = []
    for unit, name in names.items():
        ratio = one.in_unit("window", unit)
        if ratio is None or abs(math.log(one.cost[unit])) < ALIKE:
            continue
        low, high = ratio[1:]
        known = (
            f"×{number(ratio[0])} ({number(low)} to {number(high)})"
            if 0 < ratio[0] < math.inf
            else f"above {number(low)}"
        )
        found.append(f"{known} in {name}")
    return f" A step costs other than in the base; the width of the window is {' and '.join(found)}." if found else ""


def sentences(findings: Findings) -> list[str]:
    """One sentence per intervention, those that widen the window most first."""
    return [sentence(one, findings.has_rule) for one in ordered(findings)]


def ordered(findings: Findings) -> list[ArmResult]:
    """Interventions by their effect on τ_mem, the largest first; those without an estimate last."""

    def key(one: ArmResult) -> float:
        effect = one.effects.get("memory")
        return -effect.interval[0] if effect is not None else math.inf

    return sorted(findings.interventions, key=key)


def how_judged(findings: Findings) -> str:
    """What the verdicts rest on, in words."""
    seeds = len(findings.base.runs)
    some = "as far as they are finished" if findings.missing else "each"
    return (
        f"{seeds} seeds, {some} with and without every intervention. An effect is found if its p-value is below 0.05 "
        f"after correction for all {findings.questions} questions (Holm). Intervals are those of one effect alone. "
        "All runs share one scatter of ln τ; where the seeds of an intervention differ much more, its own counts too."
    )


def table(findings: Findings) -> list[dict[str, str]]:
    """One row per arm: ratios of both clocks and of the window, in steps and in other units."""
    learned = "τ_rule" if findings.has_rule else "τ_gen"
    rows = []
    for one in (findings.base, *ordered(findings)):
        row = {"intervention": one.arm.name}
        for outcome, name in (("memory", "τ_mem"), ("learned", learned), ("window", "window")):
            effect = one.effects.get(outcome)  # type: ignore[call-overload]
            row[name] = "1" if one is findings.base else "" if effect is None else mark(effect)
        for unit, name in (("samples", "window in samples"), ("operations", "in FLOP"), ("seconds", "in seconds")):
            ratio = one.in_unit("window", unit)
            known = ratio is not None and 0 < ratio[0] < math.inf
            row[name] = "1" if one is findings.base else f"×{number(ratio[0])}" if known and ratio else ""
        rows.append(row)
    return rows


def mark(effect: Effect) -> str:
    """The ratio in a table; an effect that was found has a star."""
    return ratio_words(effect).replace("95%: ", "") + (" *" if effect.is_found else "")


def quality_table(findings: Findings) -> list[dict[str, str]]:
    """One row per arm: the best values inside of the window, means over seeds."""
    names = dict.fromkeys(name for one in findings.arms for name in one.quality())
    rows = []
    for one in (findings.base, *ordered(findings)):
        quality = one.quality()
        row = {"intervention": one.arm.name, "windows open": f"{len(one.runs) - one.closed} of {len(one.runs)}"}
        for name in names:
            value = quality.get(name)
            shown = "" if value is None else f"{value:.3f}" if name == LOSS_HELD_OUT else f"{value:.1%}"
            row[QUALITIES[name]] = shown
        rows.append(row)
    return rows


def base_table(findings: Findings) -> list[dict[str, str]]:
    """The runs of the base, one row per seed."""
    return [{"base, seed": str(run.seed), "window": run.window_words} for run in findings.base.runs]
