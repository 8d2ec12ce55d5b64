"""Parts of P1's figures: curves over steps by group size or N, onsets with their intervals, laws, tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light
from twoclocks.papers.drawing import new_figure
from twoclocks.papers.two_clocks.curves import ClockName, LawLine, RunCurves, clock_runs
from twoclocks.report.drawings.parts import SMALL, step_axis
from twoclocks.report.laws import draw_interval, some_sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLOCKS: dict[ClockName, str] = {"rule": "τ_rule", "memory": "τ_mem"}
MODEL_MARKERS = {"nano": "v", "mini": "o", "S": "D", "B": "s"}
Values = Callable[[RunCurves], Floats]


def steps_axis(axis: Any, runs: Sequence[RunCurves], narrow: bool = False) -> None:
    """A logarithmic axis of training steps that holds all runs; a narrow one has room for powers of ten only."""
    from matplotlib.ticker import LogLocator

    ends = [min(one.steps[0] for one in runs), max(one.steps[-1] for one in runs)]
    step_axis(axis, np.array(ends, dtype=np.int64))
    axis.xaxis.set_major_formatter(whole_numbers())
    axis.tick_params(axis="x", labelsize=7)
    if narrow and ends[1] >= 100 * ends[0]:
        axis.xaxis.set_major_locator(LogLocator())


def whole_numbers() -> Any:
    """Ticks as 1,000,000 in place of 1e+06."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, position: f"{value:,.0f}" if value >= 1 else f"{value:g}")


def passes_axis(axis: Any, runs: Sequence[RunCurves]) -> None:
    """A logarithmic axis of steps per training sample."""
    ends: Any = np.array([min(one.passes[0] for one in runs), max(one.passes[-1] for one in runs)])
    step_axis(axis, ends)
    axis.tick_params(axis="x", labelsize=7)
    axis.set_xlabel("steps · batch / N")


def proportion_axis(axis: Any, label: str) -> None:
    axis.set(ylim=(-0.03, 1.05), ylabel=label)


def accuracy(one: RunCurves) -> Floats:
    return one.accuracy


def memorization(one: RunCurves) -> Floats:
    return one.memorization


def draw_family(
    axis: Any,
    runs: Sequence[RunCurves],
    values: Values,
    key: Callable[[RunCurves], int],
    colours: Mapping[int, Any],
    by_passes: bool = False,
) -> None:
    """One curve per run, coloured by its key (G or N); seeds share a colour."""
    for one in runs:
        x = one.passes if by_passes else one.steps
        axis.plot(x, values(one), color=colours[key(one)], linewidth=1.2, alpha=0.9)
    (passes_axis if by_passes else steps_axis)(axis, runs)


def draw_single(axis: Any, one: RunCurves) -> None:
    """Rule accuracy, memorization and invalid values of one run, with both clocks and the window between them."""
    if one.clocks.window is not None:
        begin, end = one.clocks.window
        axis.axvspan(begin, min(end, one.steps[-1]), color=light("window"), linewidth=0, zorder=0)
    axis.plot(one.steps, one.accuracy, color=light("rule"), label="rule accuracy")
    axis.plot(one.steps, one.memorization, color=light("memory"), linestyle="--", label="memorization")
    if one.invalid is not None:
        axis.plot(one.steps, one.invalid, color=light("muted"), linestyle=":", label="invalid value")
    steps_axis(axis, [one])
    mark_onsets(axis, one)
    proportion_axis(axis, "proportion of samples")
    axis.legend(loc="center", bbox_to_anchor=(0.5, 0.35), **SMALL)


def mark_onsets(axis: Any, one: RunCurves) -> None:
    """A vertical line at each clock that was reached, with its name and step on the side of the window."""
    sides: tuple[tuple[ClockName, str], ...] = (("rule", "left"), ("memory", "right"))
    for clock, side in sides:
        at = one.onset(clock).estimate
        if at is not None and one.onset(clock).seen:
            axis.axvline(at, color=light(clock), linewidth=0.9, alpha=0.7)
            place = {"transform": axis.get_xaxis_transform(), "fontsize": 7.5, "va": "center"}
            axis.text(at, 0.68, f" {CLOCKS[clock]} \n {at:,.0f} ", color=light(clock), ha=side, **place)


def draw_onsets(
    axis: Any,
    runs: Sequence[RunCurves],
    clock: ClockName,
    place: Callable[[RunCurves], float],
    colour: Callable[[RunCurves], Any] | None = None,
) -> None:
    """Onsets with intervals; an arrow where a clock was not reached, a cross where samples are valid as copies."""
    for one in clock_runs(runs, clock):
        onset, shade = one.onset(clock), light(clock) if colour is None else colour(one)
        x, size = place(one), one.model.partition("-")[2]
        if clock == "rule" and one.clocks.learned_by_memory:
            if onset.estimate is not None:
                axis.plot([x], [onset.estimate], marker="x", color=shade, markersize=4)
            continue
        draw_interval(axis, x, onset.lower, onset.upper, shade)
        if onset.estimate is not None:
            axis.plot([x], [onset.estimate], MODEL_MARKERS.get(size, "o"), color=shade, markersize=4)


def sizes_axis(axis: Any, sizes: Sequence[int]) -> None:
    """A logarithmic axis of numbers of training samples."""
    from matplotlib.ticker import NullLocator

    ordered = sorted(set(sizes))
    axis.set_xscale("log")
    shown = some_sizes(ordered, 6)
    axis.set_xticks(shown, labels=[f"{n:,}" for n in shown], fontsize=7)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlim(ordered[0] / 1.5, ordered[-1] * 1.5)
    axis.set_xlabel("training samples N")


def onset_axis(axis: Any, label: str) -> None:
    """A logarithmic axis of onsets, in steps."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,)))
    axis.yaxis.set_major_formatter(whole_numbers())
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_ylabel(label)


def draw_law_line(axis: Any, line: LawLine, colour: Any, **options: Any) -> None:
    """A fitted law, where there is one."""
    if line.law is not None:
        axis.plot(line.sizes, line.middle, color=colour, **{"linestyle": "--", "linewidth": 1.1, **options})


def draw_table(head: Sequence[str], rows: Sequence[Sequence[str]], width: float, widths: Sequence[float]) -> Figure:
    """A table as a figure, with a line below its head; ``widths`` are relative."""
    with new_figure(width, 0.32 + 0.235 * (len(rows) + 1.5)) as figure:
        axis = figure.subplots()
        axis.set_axis_off()
        whole: Any = {"bbox": [0, 0, 1, 1]}  # matplotlib takes a list, its stubs do not
        shares = [one / sum(widths) for one in widths]
        table = axis.table([*rows], colLabels=[*head], colWidths=shares, cellLoc="left", colLoc="left", **whole)
        table.auto_set_font_size(False)
        table.set_fontsize(8.5)
        for (line, _), cell in table.get_celld().items():
            cell.set(linewidth=0.6, edgecolor=light("line"), facecolor=light("paper"))
            cell.visible_edges = "B"
            cell.get_text().set_color(light("ink"))
            if not line:
                cell.set_text_props(fontweight="bold", va="center")
                cell.set_height(cell.get_height() * (1 + max(one.count("\n") for one in head) * 0.8))
        return figure
