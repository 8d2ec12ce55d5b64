"""Learning curves of one run with its clocks, window and chance levels (P1 Fig. 2B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, TypeAlias

import numpy as np

from twoclocks.clocks.window import Clocks
from twoclocks.core.arrays import Floats
from twoclocks.core.text import short
from twoclocks.core.theme import light, style
from twoclocks.evaluation import Invalid, PartAccuracy, SampleAccuracy, SampleMemorization, ValidNew
from twoclocks.evaluation.metric import pieces_named
from twoclocks.evaluation.quality.metrics import FRECHET, FRECHET_ERROR
from twoclocks.runs.columns import LOSS_CUBE, LOSS_HELD_OUT, LOSS_TRAIN, averaged
from twoclocks.runs.load import Columns, Run

LETTER = 0.017  # width of a character of a milestone's label, relative to the axis
LEGEND = {"fontsize": 8, "handlelength": 2.2, "columnspacing": 1.4, "borderaxespad": 0.3}


Dash: TypeAlias = str | tuple[int, tuple[int, ...]]  # as matplotlib wants it
PART_DASHES: tuple[Dash, ...] = ("-.", (0, (1, 1)), (0, (6, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3)))
AVERAGED_DASH: Dash = (0, (3, 1))


@dataclass(frozen=True)
class Curve:
    label: str
    colour: str  # a name of the theme
    values: Floats
    dash: Dash = "-"
    width: float = 1.8


@dataclass(frozen=True)
class Level:
    label: str
    colour: str
    value: float


@dataclass(frozen=True)
class QualityCurve:
    """The quality of images over training, with its standard errors and its value for real images."""

    values: Floats
    errors: Floats
    floor: float


@dataclass(frozen=True)
class Milestone:
    """The step at which a theory expects a part of the rule to be learned."""

    label: str
    step: float


@dataclass(frozen=True)
class CurvesInfo:
    """The data of the figure."""

    title: str
    steps: Floats
    proportions: tuple[Curve, ...]  # copies and, where there is a rule, valid samples, valid and new samples, …
    valid_new: Floats | None  # None where there is no rule
    chances: tuple[Level, ...]
    thresholds: tuple[Level, ...]
    losses: tuple[Curve, ...]
    clocks: Clocks
    milestones: tuple[Milestone, ...] = ()  # within the steps
    quality: QualityCurve | None = None  # of images

    @property
    def last_sentence(self) -> str:
        """The proportions at the last evaluation beside what chance gives; empty before the first step."""
        if not len(self.steps):
            return ""
        chances = [f"{100 * level.value:.2g}%" for level in self.chances]
        last = [f"{curve.values[-1]:.1%}" for curve in self.proportions]
        when = f"At step {self.steps[-1]:,.0f}"
        if self.valid_new is None:
            return f"{when}, {last[0]} of the samples are copies (by chance: {chances[0]}). The data have no rule."
        return (
            f"{when}, {last[0]} of the samples are valid (uniform symbols: {chances[0]}) "
            f"and {last[1]} are copies (samples of the rule itself: {chances[1]})."
        )

    @property
    def new_in_window(self) -> float | None:
        """Mean proportion of valid and new samples over the evaluations inside the window."""
        if self.clocks.window is None or self.valid_new is None:
            return None
        begin, end = self.clocks.window
        inside = (self.steps >= begin) & (self.steps <= end)
        return float(self.valid_new[inside].mean()) if inside.any() else None


def curves_data(run: Run) -> CurvesInfo:
    """The curves of a run with its clocks and chance levels."""
    run = run.reading()
    every, settings = run.metrics(), run.settings
    columns = {name: values[every["step"] > 0] for name, values in every.items()}  # a log axis has no place for step 0
    copies = Curve("copies of training samples", "memory", columns[SampleMemorization.name])
    proportions, has_rule = [copies], SampleAccuracy.name in columns
    if has_rule:
        valid = Curve("valid (rule accuracy)", "rule", columns[SampleAccuracy.name])
        proportions = [valid, copies, Curve("valid and new", "new", columns[ValidNew.name], "--")]
    loosest = Invalid.column(max(settings.evaluation.quantization))
    if loosest in columns and (columns[loosest] > 0).any():
        proportions.append(Curve("between symbols (invalid value)", "muted", columns[loosest], ":"))
    proportions += part_curves(run, columns)
    proportions += averaged_curves(columns)
    chance_copy = run.metric(SampleMemorization.name).chance_rule or 0.0
    chances = [Level(f"copies by chance {chance_copy:.2g}", "memory", chance_copy)]
    clocks = run.clocks()
    thresholds = [Level("memory threshold", "memory", clocks.memory.threshold or 0.0)]
    if has_rule:
        chance_valid = run.metric(SampleAccuracy.name).chance_cube or 0.0
        chances.insert(0, Level(f"validity by chance {chance_valid:.2g}", "rule", chance_valid))
        thresholds.insert(0, Level("rule threshold", "rule", clocks.rule.threshold or 0.0))
    names = {
        LOSS_TRAIN: ("training set", "memory", "-"),
        LOSS_HELD_OUT: ("valid, unseen" if has_rule else "unseen", "new", "-"),
        LOSS_CUBE: ("uniform symbols", "muted", ":"),
    }
    losses = tuple(
        Curve(label, colour, columns[name], dash) for name, (label, colour, dash) in names.items() if name in columns
    )
    return CurvesInfo(
        f"{run.label}: {run.title}",
        columns["step"],
        tuple(proportions),
        columns.get(ValidNew.name),
        tuple(chances),
        tuple(thresholds),
        losses,
        clocks,
        milestones_within(settings.rule.milestones(), columns["step"]),
        quality_curve(run, columns),
    )


def quality_curve(run: Run, columns: Columns) -> QualityCurve | None:
    """The Fréchet distance of images; None of other data."""
    if FRECHET not in columns:
        return None
    return QualityCurve(columns[FRECHET], columns[FRECHET_ERROR], run.metric(FRECHET).chance_rule or 0.0)


def milestones_within(expected: Mapping[str, int], steps: Floats) -> tuple[Milestone, ...]:
    """The milestones between the first and the last step, in order; those of one step share a mark."""
    names: dict[int, list[str]] = {}
    for name, step in sorted(expected.items(), key=lambda item: item[1]):
        if len(steps) and steps[0] <= step <= steps[-1]:
            names.setdefault(step, []).append(name)
    return tuple(Milestone(" = ".join(same), float(step)) for step, same in names.items())


def part_curves(run: Run, columns: Columns) -> list[Curve]:
    """Curves of valid rows, columns, blocks or layers, where a rule has several kinds of pieces."""
    kinds = [kind for kind in run.settings.rule.part_counts() if PartAccuracy.column(kind) in columns]
    if len(kinds) < 2:
        return []
    named = zip(kinds, cycle(PART_DASHES), strict=False)
    return [
        Curve(f"valid {pieces_named(kind)}", "rule", columns[PartAccuracy.column(kind)], dash, width=1.1)
        for kind, dash in named
    ]


def averaged_curves(columns: Columns) -> list[Curve]:
    """Thin curves of the averaged weights, where they were evaluated."""
    shown = {SampleAccuracy.name: ("valid", "rule"), SampleMemorization.name: ("copies", "memory")}
    return [
        Curve(f"{label}, averaged weights", colour, columns[averaged(name)], AVERAGED_DASH, width=1.1)
        for name, (label, colour) in shown.items()
        if averaged(name) in columns
    ]


def draw_curves(infos: Sequence[CurvesInfo], width: float = 6.4) -> Any:
    """One column of panels per run: proportions above, losses below, and the quality of images."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style()):
        heights = [2, 1, 1] if any(info.quality is not None for info in infos) else [2, 1]
        figure = Figure(figsize=(width * len(infos), 5.6 + 1.7 * (len(heights) - 2)), layout="constrained")
        axes = figure.subplots(len(heights), len(infos), squeeze=False, sharex="col", height_ratios=heights)
        for column, info in enumerate(infos):
            draw_proportions(axes[0, column], info)
            draw_losses(axes[1, column], info)
            if info.quality is not None:
                draw_quality(axes[2, column], info, info.quality)
            axes[-1, column].set_xlabel("training step")
            if len(infos) > 1:
                pad = 26 + 11 * (1 + max(tiers(info), default=-1))
                axes[0, column].set_title(short(info.title, 60), loc="left", fontweight="bold", pad=pad)
        return figure


def draw_proportions(axis: Any, info: CurvesInfo) -> None:
    shade_clocks(axis, info, labelled=True)
    mark_milestones(axis, info, labelled=True)
    for curve in info.proportions:
        line_style = {"linestyle": curve.dash, "linewidth": curve.width, "color": light(curve.colour)}
        axis.plot(info.steps, curve.values, label=curve.label, **line_style)
    for level in info.chances:
        axis.axhline(level.value, color=light(level.colour), linestyle=(0, (5, 4)), linewidth=1, label=level.label)
    for level in info.thresholds:
        axis.plot(
            [0, 0.015], [level.value] * 2, color=light(level.colour), linewidth=3, transform=axis.get_yaxis_transform()
        )
    axis.set(xscale="log", ylim=(-0.02, 1.04), ylabel="proportion of samples")
    # Below the panel, where no curve can run through it.
    axis.legend(loc="upper left", bbox_to_anchor=(0, -0.02), ncols=2, **LEGEND)


def draw_quality(axis: Any, info: CurvesInfo, quality: QualityCurve) -> None:
    """The Fréchet distance with two standard errors, and that of real images."""
    shade_clocks(axis, info, labelled=False)
    axis.plot(info.steps, quality.values, color=light("new"), label="samples")
    ends = np.maximum(quality.values - 2 * quality.errors, 1e-9), quality.values + 2 * quality.errors
    axis.fill_between(info.steps, *ends, color=light("new"), alpha=0.2, linewidth=0)
    axis.axhline(quality.floor, color=light("muted"), linestyle=(0, (5, 4)), linewidth=1, label="held-out images")
    axis.set(xscale="log", yscale="log", ylabel="Fréchet distance")
    axis.legend(loc="lower left", bbox_to_anchor=(0, 0.98), ncols=3, **LEGEND)
    plain_ticks(axis)


def draw_losses(axis: Any, info: CurvesInfo) -> None:
    shade_clocks(axis, info, labelled=False)
    mark_milestones(axis, info, labelled=False)
    for curve in info.losses:
        axis.plot(info.steps, curve.values, linestyle=curve.dash, color=light(curve.colour), label=curve.label)
    axis.set(xscale="log", yscale="log", ylabel="loss on")
    axis.legend(loc="lower left", bbox_to_anchor=(0, 0.98), ncols=3, **LEGEND)
    plain_ticks(axis)


def plain_ticks(axis: Any) -> None:
    """Numbers as people write them, at both axes of a panel with logarithms."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    plain = FuncFormatter(lambda value, position: f"{value:,g}")
    axis.xaxis.set_major_formatter(plain)
    axis.yaxis.set_major_formatter(plain)
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    for one in (axis.xaxis, axis.yaxis):
        one.set_minor_formatter(NullFormatter())


def shade_clocks(axis: Any, info: CurvesInfo, labelled: bool) -> None:
    """Draw the window as a shaded area and each clock as the interval that contains its onset."""
    if not len(info.steps):
        return
    end = float(info.steps[-1])
    window = info.clocks.window
    if window is not None:
        axis.axvspan(window[0], min(window[1], end), color=light("window"), linewidth=0, zorder=0)
    mark_suspicion(axis, info.clocks.suspected, end, labelled)
    clocks = info.clocks
    first = (
        (clocks.rule, "rule", "τ_rule", 1.02)
        if clocks.generation is None
        else (clocks.generation, "new", "τ_gen", 1.02)
    )
    marks = (first, (info.clocks.memory, "memory", "τ_mem", 1.075))
    for onset, colour, label, height in marks:  # two heights: labels of close clocks must not run into each other
        if onset.status == "right-censored":
            continue
        lower = max(onset.lower, float(info.steps[0]) * 0.8, 0.5)
        axis.axvspan(lower, onset.upper, color=light(colour), alpha=0.25, linewidth=0, zorder=1)
        if labelled:
            place = {"ha": "center", "va": "bottom", "fontsize": 8, "transform": axis.get_xaxis_transform()}
            axis.text(float(np.sqrt(lower * onset.upper)), height, f"{label} {onset}", color=light(colour), **place)


def mark_suspicion(axis: Any, since: float | None, end: float, labelled: bool) -> None:
    """Hatch the steps from a suspicion of copying to the last evaluation, which may be the same step."""
    if since is None or since <= 0:  # a log axis has no place for step 0
        return
    axis.axvspan(since, end, facecolor="none", edgecolor=light("memory"), alpha=0.5, hatch="///", zorder=1)
    if labelled:
        place = {"ha": "right", "va": "bottom", "fontsize": 8, "transform": axis.get_xaxis_transform()}
        axis.text(end, 1.075, f"copying suspected since {since:,.0f}", color=light("memory"), **place)


def mark_milestones(axis: Any, info: CurvesInfo, labelled: bool) -> None:
    """Draw milestones as thin dashed lines, with labels above those of the clocks."""
    place = {"ha": "center", "va": "bottom", "fontsize": 7.5, "transform": axis.get_xaxis_transform()}
    for milestone, tier in zip(info.milestones, tiers(info), strict=True):
        axis.axvline(milestone.step, color=light("muted"), linewidth=0.8, linestyle=(0, (3, 3)), zorder=1)
        if labelled:
            axis.text(milestone.step, 1.13 + 0.05 * tier, milestone.label, color=light("muted"), **place)


def tiers(info: CurvesInfo) -> list[int]:
    """The height of each milestone's label: the lowest at which it does not touch one further left."""
    if not info.milestones:
        return []
    span = float(np.log(info.steps[-1] / info.steps[0])) or 1.0
    ends: list[float] = []  # of the last label in each tier, relative to the axis
    found = []
    for milestone in info.milestones:
        middle = float(np.log(milestone.step / info.steps[0])) / span
        half = LETTER * len(milestone.label) / 2
        tier = next((k for k, end in enumerate(ends) if end < middle - half), len(ends))
        ends[tier : tier + 1] = [middle + half]
        found.append(tier)
    return found
