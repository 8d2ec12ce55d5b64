"""The forest plot of an experiment: one row per intervention, one panel per outcome, ratios with their intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from twoclocks.clocks.effects import Effect, Span
from twoclocks.core.theme import light, style
from twoclocks.widen.findings import ArmResult, Findings
from twoclocks.widen.run_result import Outcome
from twoclocks.widen.words import ordered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS: dict[Outcome, str] = {"memory": "memory", "learned": "rule", "window": "new"}
REACH = 1.15  # by how much the axis goes beyond the points


def draw_findings(findings: Findings) -> Figure:
    """Points: estimates, filled where an effect is found. Bars: 95% intervals. Small marks: single seeds."""
    import matplotlib
    from matplotlib.figure import Figure

    arms = ordered(findings)
    learned = "τ_rule" if findings.has_rule else "τ_gen"
    titles: dict[Outcome, str] = {"memory": "τ_mem", "learned": learned, "window": "width of the window"}
    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(9.6, 1.3 + 0.34 * len(arms)), layout="constrained")
        axes = figure.subplots(1, 3, sharey=True, squeeze=False)[0]
        for axis, (outcome, title) in zip(axes, titles.items(), strict=True):
            draw_panel(axis, findings, arms, outcome)
            axis.set_title(title, fontsize=9.5, loc="left")
        axes[0].set_yticks(range(len(arms)), labels=[one.arm.name for one in arms])
        axes[0].set_ylim(len(arms) - 0.4, -0.6)
        return figure


def draw_panel(axis: Any, findings: Findings, arms: list[ArmResult], outcome: Outcome) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    colour = light(COLOURS[outcome])
    low, high = limits(findings, arms, outcome)
    axis.axvline(1.0, color=light("muted"), linewidth=1.0, linestyle=(0, (4, 2)))
    for row, one in enumerate(arms):
        for ratio in seed_ratios(findings.base, one, outcome):
            axis.plot([ratio], [row + 0.22], marker="|", color=light("muted"), markersize=5, linestyle="none")
        if (effect := one.effects.get(outcome)) is not None:
            draw_effect(axis, row, effect, colour, (low, high))
    axis.set(xscale="log", xlim=(low, high), xlabel="ratio to the base")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.tick_params(axis="y", length=0)


def draw_effect(axis: Any, row: int, effect: Effect, colour: str, ends: tuple[float, float]) -> None:
    """The interval as a bar, with an arrow where it is open, and the estimate as a point."""
    low, high = max(effect.interval[0], ends[0]), min(effect.interval[1], ends[1])
    axis.plot([low, high], [row, row], color=colour, linewidth=1.4)
    for end, beyond, marker in ((low, effect.interval[0] < ends[0], "<"), (high, effect.interval[1] > ends[1], ">")):
        if beyond:
            axis.plot([end], [row], marker=marker, color=colour, markersize=6, clip_on=False)
    if ends[0] < effect.ratio < ends[1]:
        filled = colour if effect.is_found else light("paper")
        axis.plot([effect.ratio], [row], marker="o", color=colour, markerfacecolor=filled, markersize=6)


def middle(time: Span) -> float | None:
    """Geometric mean of the ends; None where one is open."""
    return math.sqrt(time.lower * time.upper) if time.lower > 0 and math.isfinite(time.upper) else None


def seed_ratios(base: ArmResult, one: ArmResult, outcome: Outcome) -> list[float]:
    """The ratio of every seed for which both times are known."""
    known = {run.seed: middle(run.times[outcome]) for run in base.runs if outcome in run.times}
    found = []
    for run in one.runs:
        time, other = middle(run.times[outcome]) if outcome in run.times else None, known.get(run.seed)
        if time is not None and other is not None:
            found.append(time / other)
    return found


def limits(findings: Findings, arms: list[ArmResult], outcome: Outcome) -> tuple[float, float]:
    """Ends of the axis: all estimates and seeds, and intervals up to a factor of 4 beyond them."""
    points = [1 / 1.5, 1.5]
    ends = []
    for one in arms:
        points += seed_ratios(findings.base, one, outcome)
        effect = one.effects.get(outcome)
        if effect is not None:
            points += [effect.ratio] if 0 < effect.ratio < math.inf else []
            ends += [end for end in effect.interval if 0 < end < math.inf]
    least, most = min(points), max(points)
    low = min([least, *(max(end, least / 4) for end in ends)])
    high = max([most, *(min(end, most * 4) for end in ends)])
    return low / REACH, high * REACH
