"""What P2's figures of one hidden layer share: losses over training, and the onset of their gap over a setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.clocks.onset import Onset
from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light
from twoclocks.papers.drawing import BY_SIZE, GROUND, colours_of, log_steps, name_panel, new_figure
from twoclocks.papers.early_stopping.kernel_runs import LIMITS, THRESHOLD, Axis, AxisRuns, axis_runs
from twoclocks.papers.figure import MissingRunsError, PaperFigure
from twoclocks.papers.records import Record, Records
from twoclocks.report.drawings.parts import SMALL
from twoclocks.report.laws import draw_interval
from twoclocks.runs.columns import LOSS_HELD_OUT, LOSS_TRAIN, STEP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AXES: dict[Axis, str] = {"size": "training points P", "noise": "noise σ", "batch": "batch"}


@dataclass(frozen=True)
class LossCurve:
    """Both losses of one run; step 0 is left out, since steps are drawn on a log axis."""

    place: float
    steps: Floats
    train: Floats
    held_out: Floats


@dataclass(frozen=True)
class AxisPanel:
    """One column of a figure: runs that differ in one setting."""

    limit: str
    axis: Axis
    curves: tuple[LossCurve, ...]  # of the first seed
    places: tuple[float, ...]
    onsets: tuple[Onset, ...]
    fit: tuple[float, float] | None  # constant and power
    words: str  # the fitted power with its interval and seeds
    claimed: float  # P2's power


@dataclass(frozen=True)
class KernelInfo:
    """The data of a figure."""

    columns: tuple[AxisPanel, ...]
    width: int  # of the hidden layer


class KernelFigure(PaperFigure[KernelInfo]):
    """Two columns: the losses, and the onset of their gap over the setting that differs."""

    axes: ClassVar[tuple[tuple[str, Axis, float], ...]]  # preset, axis and P2's power, by column

    def data(self, records: Records) -> KernelInfo:
        found = [(preset, claimed, axis_runs(records, preset, axis)) for preset, axis, claimed in self.axes]
        columns = [axis_panel(LIMITS[preset], runs, claimed) for preset, claimed, runs in found if runs.records]
        if not columns:
            raise MissingRunsError("runs: there is none of one hidden layer; make the runs first")
        first = next(runs.records[0] for _, _, runs in found if runs.records)
        return KernelInfo(tuple(columns), first.value("model.width"))

    def draw(self, info: KernelInfo) -> Figure:
        with new_figure(4.8 * len(info.columns), 6.2) as figure:
            grid = figure.subplots(2, len(info.columns), squeeze=False)
            for k, column in enumerate(info.columns):
                draw_losses(grid[0, k], "AB"[k], column)
                draw_onsets(grid[1, k], "CD"[k], column)
            return figure

    def caption(self, info: KernelInfo) -> str:
        said = "; ".join(f"{one.limit}, over {AXES[one.axis]}: {one.words}" for one in info.columns)
        return (
            f"One hidden layer of {info.width:,} ReLU units learns the score of Gaussian points in 64 dimensions at "
            "one noise level. Above: training loss (line) and held-out loss (dotted) of one seed. Below: the step at "
            f"which they differ by {THRESHOLD}, with all seeds; dashes: fit, grey: P2's power. {said}."
        )


def axis_panel(limit: str, runs: AxisRuns, claimed: float) -> AxisPanel:
    """A column from its runs."""
    power = runs.power()
    first = min(one.seed for one in runs.records)
    shown = [(x, one) for x, one in zip(runs.places, runs.records, strict=True) if one.seed == first]
    fitted = "too few values for a power" if power is None else f"power {power}, P2 says {claimed:g}"
    return AxisPanel(
        limit=limit,
        axis=runs.axis,
        curves=tuple(loss_curve(x, one) for x, one in shown),
        places=tuple(runs.places),
        onsets=tuple(runs.onsets()),
        fit=None if power is None else (power.a, power.power),
        words=f"{fitted} (seeds: {runs.seeds.words or 'one'})",
        claimed=claimed,
    )


def loss_curve(place: float, one: Record) -> LossCurve:
    columns = one.run.metrics()
    after = columns[STEP] > 0
    parts = (columns[STEP], columns[LOSS_TRAIN], columns[LOSS_HELD_OUT])
    return LossCurve(place, *(np.asarray(part[after]) for part in parts))


def draw_losses(axis: Any, letter: str, column: AxisPanel) -> None:
    """Both losses over the steps, in the colours of the setting."""
    for one, shade in zip(column.curves, shades(column.curves), strict=True):
        label = f"{one.place:.2g}" if one.place < 1 else f"{one.place:,.0f}"
        axis.plot(one.steps, one.train, color=shade, linewidth=1.1, label=label)
        axis.plot(one.steps, one.held_out, color=shade, linewidth=1.1, linestyle=":")
    log_steps(axis, "x")
    axis.set(xlabel="training step", ylabel="loss")
    axis.legend(title=AXES[column.axis], title_fontsize=7.5, loc="best", **SMALL, **GROUND)
    name_panel(axis, letter, f"{column.limit}: training (line) and held-out loss (dotted)")


def shades(curves: Sequence[LossCurve]) -> list[Any]:
    return list(colours_of(range(len(curves)), BY_SIZE).values())[: len(curves)]


def draw_onsets(axis: Any, letter: str, column: AxisPanel) -> None:
    """The onset of the gap over the setting, with its fit and P2's power through the middle of the points."""
    shade = light("rule")
    for x, one in zip(column.places, column.onsets, strict=True):
        draw_interval(axis, x, one.lower, one.upper, shade)
    seen = [(x, one.estimate) for x, one in zip(column.places, column.onsets, strict=True) if one.estimate]
    if seen:
        x, y = np.array(seen).T
        axis.plot(x, y, color=shade, marker="o", markersize=4, linestyle="none")
        ends = np.array([x.min(), x.max()])
        middle = np.exp(np.mean(np.log(y) - column.claimed * np.log(x)))
        axis.plot(ends, middle * ends**column.claimed, color=light("muted"), linewidth=3, alpha=0.4)
        if column.fit is not None:
            axis.plot(ends, column.fit[0] * ends ** column.fit[1], color=shade, linewidth=1, linestyle="--")
    axis.set(xscale="log", yscale="log", xlabel=AXES[column.axis], ylabel="onset of the gap (steps)")
    places = sorted(set(column.places))
    axis.set_xticks(places, labels=[f"{x:.2g}" if x < 1 else f"{x:,.0f}" for x in places])
    axis.minorticks_off()
    log_steps(axis, "y")
    name_panel(axis, letter, column.words.partition(",")[0])
