"""The phase diagram (P2 Fig. 6): training steps against training-set size; and for which sizes the window is open."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, TypeVar

from twoclocks.analysis.phases import Phase, PhaseCell, PhaseDiagram, RunPhases
from twoclocks.core.text import short
from twoclocks.core.theme import light, question_mark, style

T = TypeVar("T")

COLOURS = {
    "nothing yet": "line",
    "partial generalization": "rule",
    "generalization": "new",
    "copying suspected": "broken",
    "memorization": "memory",
    "not certain": "muted",
}
VERDICTS = {"open": "new", "suspected": "broken", "empty": "memory", "mixed": "rule", "unknown": "muted"}
SUSPECTED_MARK = "first copies above the threshold"
MOST_BARS = 60  # runs that the figure of phases draws, evenly chosen
MOST_PANELS = 9
MOST_VERDICTS = 24  # groups, and sizes, that the figure of verdicts draws, evenly chosen
BAR = 0.78  # height of a bar, of a row of 1
FAINTEST = 0.35  # opacity of the colour while one part is learned
SMALL = {"fontsize": 8, "handlelength": 1.6, "columnspacing": 1.4}


def draw_phases(info: PhaseDiagram) -> Any:
    """One panel per group of runs; groups differ in more than their size. Of many runs, some are drawn."""
    import matplotlib
    from matplotlib.figure import Figure

    info = some_runs(info)
    columns = len(info.groups) if len(info.groups) < 4 else 2 if len(info.groups) == 4 else 3
    lines = -(-len(info.groups) // columns)
    rows = max(len(places(info.of(group))) for group in info.groups)
    height = lines * (0.9 + max(1.3, min(0.3 * rows, 6.0))) + 0.6
    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(max(7.4, 3.5 * columns), height), layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False, sharex=True)
        for axis in axes.flat[len(info.groups) :]:
            axis.set_visible(False)
        for axis, group in zip(axes.flat, info.groups, strict=False):
            draw_group(axis, info.of(group))
            if len(info.groups) > 1:
                axis.set_title("\n".join(textwrap.wrap(short(group, 200), 44)), fontsize=9, loc="left")
        for axis in axes[:, 0]:
            axis.set_ylabel("training samples N")
        for number, axis in enumerate(axes.flat[: len(info.groups)]):
            step_axis(axis, info)
            if number + columns >= len(info.groups):  # nothing below it
                axis.set_xlabel("training step")
                axis.tick_params(labelbottom=True)
        figure.legend(handles=keys(info.runs), loc="outside lower center", ncols=4, **SMALL)
        return figure


def some_runs(info: PhaseDiagram) -> PhaseDiagram:
    """The diagram with at most ``MOST_BARS`` runs of ``MOST_PANELS`` groups, evenly chosen."""
    groups = evenly(info.groups, MOST_PANELS)
    if len(info.runs) <= MOST_BARS and len(groups) == len(info.groups):
        return info
    kept = [run for group in groups for run in evenly(info.of(group), MOST_BARS // len(groups))]
    return PhaseDiagram(tuple(kept), info.left_out)


def evenly(items: Sequence[T], most: int) -> list[T]:
    """At most so many of the items, with the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(k * (len(items) - 1) / (most - 1))] for k in range(most)]


def places(runs: Sequence[RunPhases]) -> list[float]:
    """Heights of the bars: runs of one size lie close together, sizes apart."""
    found: list[float] = []
    for before, run in zip([None, *runs], runs, strict=False):
        found.append((found[-1] if found else 0.0) + (1.0 if before is None or before.n == run.n else 1.5))
    return found


def draw_group(axis: Any, runs: Sequence[RunPhases]) -> None:
    heights = places(runs)
    for run, height in zip(runs, heights, strict=True):
        for phase in run.phases:
            draw_phase(axis, phase, height, len(run.clocks.parts))
        last = run.phases[-1] if run.phases else None
        if last is not None and last.name != "memorization":  # its end was not reached
            axis.plot([run.steps[1] * 1.04], [height], marker=">", color=light("ink"), markersize=4, clip_on=False)
        if run.clocks.suspected is not None:  # its bar has no width if that is the last evaluation
            place = {"marker": question_mark(), "color": light("memory"), "markersize": 6, "zorder": 4}
            axis.plot([max(run.clocks.suspected, run.steps[0])], [height], **place)
        if run.clocks.learned_by_memory and run.clocks.rule.estimate is not None:
            axis.plot([run.clocks.rule.estimate], [height], marker="x", color=light("ink"), markersize=5, zorder=4)
    sizes = sorted({run.n for run in runs})
    middles = [[at for run, at in zip(runs, heights, strict=True) if run.n == n] for n in sizes]
    axis.set_yticks([sum(found) / len(found) for found in middles], labels=[f"{n:,}" for n in sizes])
    axis.set_ylim(heights[0] - 0.7, heights[-1] + 0.7)
    axis.tick_params(axis="y", length=0)
    axis.grid(False, axis="y")
    axis.set_axisbelow(True)


def draw_phase(axis: Any, phase: Phase, height: float, kinds: int) -> None:
    colour = light(COLOURS[phase.name])
    where = {"y": height, "width": phase.end - phase.begin, "left": phase.begin, "height": BAR, "zorder": 2}
    unsure = {"color": "none", "edgecolor": light("muted"), "hatch": "////", "linewidth": 0}
    if phase.name == "not certain":
        axis.barh(**where, **unsure)
        return
    axis.barh(**where, color=light("paper"), linewidth=0)  # hides the grid lines
    axis.barh(**where, color=colour, alpha=opacity(phase, kinds), linewidth=0)
    if phase.perhaps:
        axis.barh(**where, **unsure)
        return
    if phase.learned and phase.end > 1.25 * phase.begin:
        middle = (phase.begin * phase.end) ** 0.5
        place = {"ha": "center", "va": "center_baseline", "fontsize": 7, "zorder": 5}
        axis.text(middle, height, str(len(phase.learned)), color=light("ink"), **place)


def opacity(phase: Phase, kinds: int) -> float:
    """The opacity of a phase, which grows with the number of learned parts."""
    if not phase.learned:
        return 1.0
    return FAINTEST + (0.8 - FAINTEST) * (len(phase.learned) - 1) / max(kinds - 1, 1)


def step_axis(axis: Any, info: PhaseDiagram) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_xscale("log")
    low, high = min(run.steps[0] for run in info.runs), max(run.steps[1] for run in info.runs)
    axis.set_xlim(low, max(high, low * 1.01) * 1.12)
    axis.xaxis.set_major_locator(LogLocator(numticks=6))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def keys(runs: Sequence[RunPhases]) -> list[Any]:
    """The entries of the legend that occur in the figure, in the order of phases."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    seen = {phase.name for run in runs for phase in run.phases}
    found: list[Any] = [
        Patch(
            facecolor=light(colour),
            alpha=0.6 if name.startswith("partial") else 1.0,
            label=f"{name} (number of parts)" if name.startswith("partial") else name,
        )
        for name, colour in COLOURS.items()
        if name in seen and name != "not certain"
    ]
    if "not certain" in seen:
        found.append(Patch(facecolor="none", edgecolor=light("muted"), hatch="////", linewidth=0, label="not certain"))
    mark: dict[str, Any] = {"linestyle": "none", "color": light("ink"), "markersize": 4.5}
    if any(run.phases and run.phases[-1].name != "memorization" for run in runs):
        found.append(Line2D([], [], marker=">", label="not ended by the last step", **mark))
    if any(run.clocks.suspected is not None for run in runs):
        found.append(
            Line2D([], [], **{**mark, "marker": question_mark(), "color": light("memory"), "label": SUSPECTED_MARK})
        )
    if any(run.clocks.learned_by_memory for run in runs):
        found.append(Line2D([], [], marker="x", label="valid as copies only", **mark))
    return found


def draw_verdicts(info: PhaseDiagram) -> Any:
    """Draw groups against sizes: whether the window is open, and how wide it is."""
    import matplotlib
    from matplotlib.figure import Figure

    groups, sizes = evenly(info.groups, MOST_VERDICTS), evenly(info.sizes, MOST_VERDICTS)
    cells = [cell for cell in info.cells() if cell.group in groups and cell.n in sizes]
    widest = max((cell.width for cell in cells if cell.width is not None), default=1.0)
    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(max(5.0, 2.4 + 0.95 * len(sizes)), 1.1 + 0.55 * len(groups)), layout="constrained")
        axis = figure.subplots()
        for cell in cells:
            x, y = sizes.index(cell.n), groups.index(cell.group)
            colour = light(VERDICTS[cell.verdict])
            share = 0.2 + 0.4 * max(cell.width or 0.0, 0.0) / max(widest, 1e-9) if cell.verdict == "open" else 0.25
            axis.barh(y, 0.94, left=x - 0.47, height=0.9, color=colour, alpha=share, linewidth=0)
            axis.text(x, y, words(cell), ha="center", va="center", fontsize=7.5, color=light("ink"))
        axis.set_xticks(range(len(sizes)), labels=[f"{n:,}" for n in sizes])
        axis.set_yticks(
            range(len(groups)), labels=["\n".join(textwrap.wrap(short(group, 200), 36)) for group in groups]
        )
        axis.set(xlim=(-0.5, len(sizes) - 0.5), ylim=(-0.5, len(groups) - 0.5), xlabel="training samples N")
        axis.tick_params(length=0)
        axis.grid(False)
        for side in ("left", "bottom"):
            axis.spines[side].set_visible(False)
        return figure


def words(cell: PhaseCell) -> str:
    """The text of a cell, such as ``open`` above ``≥ 12×``; where runs differ, how many are open or suspected."""
    said = cell.verdict if cell.verdict != "mixed" else f"open {cell.open} of {cell.runs}"
    if cell.verdict == "mixed" and cell.suspected:
        said += f"\nsuspected {cell.suspected}"
    if cell.width is None:
        return said
    times = 10**cell.width
    number = f"{times:,.0f}" if times >= 10 else f"{times:.1f}"
    return f"{said}\n{'≥ ' if cell.at_least else ''}{number}×"
