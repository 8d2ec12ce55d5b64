"""Figure of P1's collapse (Fig. 2H): copies over steps, and over steps·batch/N, of runs of different sizes N."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from twoclocks.analysis.collapses import RunsCollapse, found_size_collapses
from twoclocks.clocks.size_collapse import RescaledTime, SizeCollapse
from twoclocks.core.arrays import Floats
from twoclocks.core.text import short
from twoclocks.core.theme import light, style
from twoclocks.report.drawings.parts import plain_log, shades
from twoclocks.report.laws import drawn_points, some_sizes
from twoclocks.report.legends import legend_below
from twoclocks.runs.load import Run

MOST_COLLAPSES = 4  # sets of runs that are drawn
BEFORE = 5  # how much earlier than the first onset the axes begin, as a factor
REACH = 1.7  # length of the arrow of a censored onset, as a factor


@dataclass(frozen=True)
class CollapseCurve:
    """The copies of one run over its training."""

    n: int
    steps: Floats
    rates: Floats
    onset: RescaledTime  # in steps

    @property
    def first_mark(self) -> float:
        """The earliest step that its onset needs on the axis."""
        return self.onset.low if self.onset.low > 0 else self.onset.high / REACH


@dataclass(frozen=True)
class CollapseInfo:
    """The data of one row of the figure."""

    title: str
    collapse: SizeCollapse
    curves: tuple[CollapseCurve, ...]
    threshold: float  # of the copy rate, at which onsets are marked
    middle: float | None  # geometric middle of the onsets on steps·batch/N; None where none was observed

    @property
    def sizes(self) -> list[int]:
        return list(self.collapse.times)

    @property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Ends of the two axes, of equal length in decades, so that distances on both can be compared."""
        spans = []
        for scales in ([1.0] * len(self.curves), [self.collapse.batch / curve.n for curve in self.curves]):
            pairs = list(zip(self.curves, scales, strict=True))
            last = max(float(curve.steps[-1]) * scale for curve, scale in pairs)
            first = min(curve.first_mark * scale for curve, scale in pairs)
            spans.append((min(first, last) / BEFORE, last * REACH))  # room for the arrow of a run that ends last
        ratio = max(high / low for low, high in spans)
        (_, left), (_, right) = spans
        return (left / ratio, left), (right / ratio, right)

    @property
    def sentence(self) -> str:
        prefix = "" if self.title == "all runs" else f"{self.title}: "
        text = f"{prefix}{self.collapse}."
        return text[0].upper() + text[1:]


def collapse_data(runs: Sequence[Run]) -> list[CollapseInfo]:
    """The first sets of runs that differ in N alone, each with its curves."""
    found = (collapse_info(one) for one in found_size_collapses(runs))
    return list(islice((info for info in found if info.curves), MOST_COLLAPSES))


def collapse_info(found: RunsCollapse) -> CollapseInfo:
    """The curves and the marks of one set of runs; of many runs, some."""
    curves = []
    for point in sorted(drawn_points(found.points), key=lambda point: point.n):
        series, onset = point.run.series(), point.onset
        step, copied, trials = (np.asarray(v, dtype=np.float64) for v in (series.steps, series.copied, series.trials))
        later = step > 0  # a log axis has no place for step 0
        mark = RescaledTime(onset.lower, onset.estimate, onset.upper)
        if later.any():
            curves.append(CollapseCurve(point.n, step[later], (copied / trials)[later], mark))
    seen = [math.log(one.estimate) for one in found.collapse.times.values() if one.estimate is not None]
    middle = math.exp((min(seen) + max(seen)) / 2) if seen else None
    threshold = found.points[0].onset.threshold or 0.0
    return CollapseInfo(found.label, found.collapse, tuple(curves), threshold, middle)


def draw_collapses(infos: Sequence[CollapseInfo], width: float = 9.2) -> Any:
    """One row per set of runs: over steps on the left, over steps·batch/N on the right."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(width, 4.3 * len(infos)), layout="constrained")
        rows = figure.subplots(len(infos), 2, squeeze=False, sharey=True)
        for (left, right), info in zip(rows, infos, strict=True):
            colours = dict(zip(info.sizes, shades(len(info.sizes)), strict=True))
            draw_over_steps(left, info, colours)
            draw_rescaled(right, info, colours)
            for axis, limits in zip((left, right), info.limits, strict=True):
                axis.axhline(info.threshold, color=light("muted"), linestyle=(0, (1, 1.5)), linewidth=0.9, zorder=0)
                plain_log(axis, "x")
                axis.set(xlim=limits, ylim=(-0.03, 1.03))
            if info.title != "all runs":
                left.set_title(short(info.title, 60))
        return figure


def draw_over_steps(axis: Any, info: CollapseInfo, colours: dict[int, Any]) -> None:
    named = set(some_sizes(info.sizes, most=9))
    for curve in info.curves:
        label = f"N = {curve.n:,}" if curve.n in named else None
        named.discard(curve.n)
        axis.plot(curve.steps, curve.rates, color=colours[curve.n], linewidth=1.3, label=label)
        draw_mark(axis, info.threshold, curve.onset, colours[curve.n])
    axis.set(xlabel="training steps", ylabel="copies (proportion of samples)")
    legend_below(axis)


def draw_rescaled(axis: Any, info: CollapseInfo, colours: dict[int, Any]) -> None:
    found = info.collapse
    if info.middle is not None:
        ends = info.middle / math.sqrt(found.factor), info.middle * math.sqrt(found.factor)
        axis.axvspan(*ends, color=light("muted"), alpha=0.16, linewidth=0, zorder=0, label=f"factor {found.factor:g}")
        legend_below(axis)
    for curve in info.curves:
        scale = found.batch / curve.n
        axis.plot(curve.steps * scale, curve.rates, color=colours[curve.n], linewidth=1.3)
    for n, time in found.times.items():
        draw_mark(axis, info.threshold, time, colours[n])
    axis.set(xlabel=f"steps·batch/N   (batch {found.batch:,})")
    axis.set_title(f"onsets {found.onsets} apart", fontsize=9)


def draw_mark(axis: Any, height: float, time: RescaledTime, colour: Any) -> None:
    """Mark an onset at the height of its threshold with its interval, as an arrow where one end is open."""
    if math.isinf(time.high) or time.low <= 0:
        start = time.low if math.isinf(time.high) else time.high
        end = start * REACH if math.isinf(time.high) else start / REACH
        if 0 < start < math.inf:
            arrow_style = {"arrowstyle": "->", "color": colour, "linewidth": 1.1}
            axis.annotate("", xy=(end, height), xytext=(start, height), arrowprops=arrow_style)
            axis.plot([start], [height], marker="|", color=colour, markersize=7)
        return
    axis.plot([time.low, time.high], [height, height], color=colour, linewidth=1.1, alpha=0.8)
    if time.estimate is not None:
        axis.plot([time.estimate], [height], marker="o", color=colour, markersize=4.5, markeredgecolor=light("paper"))
