"""P1 Fig. 4: DiT and GPT side by side, and the next-token loss of GPT by split and position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light
from twoclocks.dissection.views.positions import PositionsInfo
from twoclocks.papers.drawing import GROUND, explain, name_panel, new_figure
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Record, Records
from twoclocks.papers.two_clocks.curves import (
    MODELS,
    PAPER_N,
    RunCurves,
    clock_runs,
    plain_curves,
    plain_records,
    run_curves,
    shown_group,
    shown_run,
    shown_size,
    some_curves,
)
from twoclocks.papers.two_clocks.panels import accuracy, memorization, proportion_axis, steps_axis
from twoclocks.papers.two_clocks.runs import DIT, GPT
from twoclocks.papers.views import view_of
from twoclocks.report.drawings.parts import SMALL, SPLIT_STYLES, colour_bar, edges, heat
from twoclocks.runs.columns import STEP, loss_column
from twoclocks.runs.rows import StoredRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {DIT: "new", GPT: "broken"}  # the paper's green and purple
WINDOW = (0.9, 0.1)  # the paper's shade: accuracy above, memorization below
GAPS = (("uniform bits − training", "cube"), ("held-out − training", "held_out"))


@dataclass(frozen=True)
class Losses:
    """Mean next-token loss of a run by split; a split that was not measured is missing."""

    run: RunCurves
    by_split: dict[str, Floats]


@dataclass(frozen=True)
class PositionGaps:
    """How much more each position costs on a split than on the training set: (steps, positions), in nats."""

    n: int
    steps: npt.NDArray[np.int64]
    gaps: dict[str, Floats]
    determined: npt.NDArray[np.intp]
    first_split: int | None


@dataclass(frozen=True)
class ModelsInfo:
    """The data of the figure."""

    pair: tuple[RunCurves, ...]  # A: one run of each network
    n: int  # of B
    groups: tuple[RunCurves, ...]  # B
    losses: Losses | None  # C
    positions: PositionGaps | None  # D

    def of(self, preset: str) -> list[RunCurves]:
        """One run per group size of a network, for B."""
        return list({one.group: one for one in reversed(self.groups) if one.preset == preset}.values())[::-1]

    @property
    def missing(self) -> list[str]:
        absent = [f"{MODELS[preset]} (A)" for preset in COLOURS if preset not in {one.preset for one in self.pair}]
        absent += [f"{one.model} to τ_mem (A)" for one in self.pair if not one.clocks.memory.seen]
        if self.positions is None:
            absent.append("the loss by position (D)")
        return absent


@FIGURES.register("fig4")
class TwoArchitectures(PaperFigure[ModelsInfo]):
    """DiT and GPT."""

    id: ClassVar[str] = "fig4"
    title: ClassVar[str] = "Diffusion and autoregressive networks share the two clocks"
    shows: ClassVar[str] = (
        "A: accuracy and memorization of DiT-mini (green) and GPT-mini (purple) at G = 3, N = 4,096, with the window "
        "shaded. B: heat maps over steps and G for each network. C, D (from the text; the printed caption is cut): "
        "GPT's loss on training, unseen and uniform samples, and how the losses part by position."
    )
    claims: ClassVar[tuple[str, ...]] = ("A10", "A16")
    grids: ClassVar[tuple[str, ...]] = ("gpt-law", "gpt-groups", "dissection-gpt", "dit-groups", "dit-law")

    def data(self, records: Records) -> ModelsInfo:
        runs = some_curves(records, DIT, GPT)
        n = shown_size(runs)
        return ModelsInfo(
            pair=paired(runs),
            n=n,
            groups=tuple(one for one in clock_runs(runs, "memory") if one.n == n),
            losses=gpt_losses(records),
            positions=position_gaps(records),
        )

    def draw(self, info: ModelsInfo) -> Figure:
        with new_figure(12.4, 7.6) as figure:
            rows = figure.add_gridspec(2, 1)
            first = rows[0].subgridspec(1, 5, width_ratios=[1.9, 1, 1, 1, 1])
            draw_pair(figure.add_subplot(first[0]), info)
            for column, preset in enumerate(COLOURS):
                draw_maps(figure, [figure.add_subplot(first[1 + 2 * column + k]) for k in range(2)], info, preset)
            second = rows[1].subgridspec(1, 3, width_ratios=[1.2, 1, 1])
            draw_losses(figure.add_subplot(second[0]), info.losses)
            draw_gaps(figure, [figure.add_subplot(second[1 + k]) for k in range(2)], info.positions)
            return figure

    def caption(self, info: ModelsInfo) -> str:
        pair = [f"{one.model} at N = {one.n:,} (seed {one.seed}): {window_words(one)}" for one in info.pair]
        where = info.positions
        split = (
            ""
            if where is None or where.first_split is None
            else (f" Held-out and training loss part from position {where.first_split + 1} on (N = {where.n:,}; D).")
        )
        return (
            "Accuracy (solid) and memorization (dashed) of both networks; shaded: accuracy above 0.9 and memorization "
            f"below 0.1. A, G = {info.pair[0].group}: {'; '.join(pair)}. B: the same over the group size at N = "
            f"{info.n:,}. C: loss by split.{split} Paper (N = 4,096): GPT is faster, its window shorter, its copying "
            "more sudden; at τ_rule the last bit of each group parts, at τ_mem all late positions."
            + (f" Not run yet: {', '.join(info.missing)}." if info.missing else "")
        )


def window_words(one: RunCurves) -> str:
    """Both clocks, and how many times later copying begins."""
    rule, memory = one.clocks.rule, one.clocks.memory
    both = rule.estimate is not None and memory.estimate is not None
    factor = (
        f", {memory.estimate / rule.estimate:.3g} times later" if both and memory.estimate and rule.estimate else ""
    )
    return f"τ_rule {rule}, τ_mem {memory}{factor}"


def paired(runs: Sequence[RunCurves]) -> tuple[RunCurves, ...]:
    """One run of each network: at one N where both reached τ_mem, or both were run; else each on its own."""
    whole = clock_runs(runs, "memory") or list(runs)
    by_preset = {preset: [one for one in whole if one.preset == preset] for preset in COLOURS}
    present = [same for same in by_preset.values() if same]
    groups = set.intersection(*({one.group for one in same} for same in present))
    group = shown_group([one for one in whole if one.group in groups] or whole)
    chosen = [[one for one in same if one.group == group] or same for same in present]
    for reached in (True, False):
        sizes = set.intersection(*({o.n for o in same if o.clocks.memory.seen or not reached} for same in chosen))
        if sizes:
            n = max(sizes, key=lambda size: (size == PAPER_N, size))
            return tuple(shown_run([one for one in same if one.n == n]) for same in chosen)
    return tuple(shown_run(same) for same in chosen)


def gpt_losses(records: Records) -> Losses | None:
    """The losses of one GPT run that reached τ_mem, if possible."""
    runs = clock_runs(plain_curves(records, GPT), "memory")
    if not runs:
        return None
    best = shown_run(runs)
    for one in plain_records(records, GPT):
        if (one.n, one.seed, one.value("rule.group")) == (best.n, best.seed, best.group):
            columns = one.run.metrics()
            after = columns[STEP] > 0
            there = {
                split: columns[loss_column(split)][after] for split in SPLIT_STYLES if loss_column(split) in columns
            }
            return Losses(run_curves(one), there) if there else None
    return None


def position_gaps(records: Records) -> PositionGaps | None:
    """Losses by position of the first GPT run for which they were measured, or can be."""
    plain = plain_records(records, GPT)
    if not plain:
        return None
    group = shown_group([run_curves(one) for one in plain])
    chosen = sorted(plain.where(rule__group=group), key=lambda one: (one.n != PAPER_N, -one.n, one.seed))
    for one in chosen:
        info = view_of(one, "positions") if any(map(has_weights, one.versions)) else None
        if isinstance(info, PositionsInfo):
            gaps = {split: info.of(split) - info.of("train") for _, split in GAPS}
            return PositionGaps(one.n, info.steps, gaps, info.determined, info.first_split())
    return None


def has_weights(one: Record) -> bool:
    """Whether a view can be read from its committed measurements, or measured on its weights."""
    return isinstance(one.run, StoredRun) or one.run.settings.evaluation.keep_weights > 0


def draw_pair(axis: Any, info: ModelsInfo) -> None:
    """A: both networks, with the shaded steps at which samples are valid and new."""
    for one in info.pair:
        colour = light(COLOURS[one.preset])
        inside = (one.accuracy > WINDOW[0]) & (one.memorization < WINDOW[1])
        axis.fill_between(one.steps, 0, 1, where=inside, color=colour, alpha=0.12, linewidth=0)
        axis.plot(one.steps, one.accuracy, color=colour, label=f"{one.model} (dashed: memorization)")
        axis.plot(one.steps, one.memorization, color=colour, linestyle="--")
    steps_axis(axis, info.pair)
    proportion_axis(axis, "proportion of samples")
    axis.legend(loc="center", bbox_to_anchor=(0.5, 0.75), **GROUND, **SMALL)
    sizes = " and ".join(f"{n:,}" for n in dict.fromkeys(one.n for one in info.pair))
    name_panel(axis, "A", f"G = {info.pair[0].group}, N = {sizes}")


def draw_maps(figure: Any, axes: Sequence[Any], info: ModelsInfo, preset: str) -> None:
    """B: accuracy and memorization of a network, one line of the map per group size."""
    runs = info.of(preset)
    for axis, values, what in zip(axes, (accuracy, memorization), ("accuracy", "memorization"), strict=True):
        letter = "B" if preset == DIT and what == "accuracy" else ""
        name_panel(axis, letter, f"{MODELS[preset]}:\n{what}")
        if not runs:
            explain(axis, f"not run yet at N = {info.n:,}")
            continue
        drawn = None
        for k, one in enumerate(runs):
            colours = {"cmap": "viridis", "vmin": 0.0, "vmax": 1.0}
            rows = np.array([k - 0.5, k + 0.5])
            drawn = axis.pcolormesh(edges(one.steps), rows, values(one)[None], rasterized=True, **colours)
        axis.grid(False)
        steps_axis(axis, runs, narrow=True)
        axis.set_yticks(range(len(runs)), labels=[str(one.group) for one in runs])
        axis.set_ylabel("group size G" if what == "accuracy" else "")
        if what == "memorization":
            colour_bar(figure, drawn, axis, "proportion")


def draw_losses(axis: Any, losses: Losses | None) -> None:
    """C: the loss on each split."""
    if losses is None:
        name_panel(axis, "C", "next-token loss")
        explain(axis, "no run of GPT-mini with its losses")
        return
    for split, values in losses.by_split.items():
        label, colour = SPLIT_STYLES[split]
        axis.plot(losses.run.steps, values, color=light(colour), label=label)
    for clock, colour in ((losses.run.clocks.rule, "rule"), (losses.run.clocks.memory, "memory")):
        if clock.seen and clock.upper > 0:
            axis.axvspan(max(clock.lower, losses.run.steps[0] / 2), clock.upper, color=light(colour), alpha=0.25)
    steps_axis(axis, [losses.run])
    axis.set_ylabel("cross-entropy per bit (nats)")
    axis.legend(loc="upper left", **SMALL)
    name_panel(axis, "C", f"{losses.run.model}, G = {losses.run.group}, N = {losses.run.n:,} (bars: τ_rule, τ_mem)")


def draw_gaps(figure: Any, axes: Sequence[Any], found: PositionGaps | None) -> None:
    """D: where the losses part, by position; marks at the right are bits that the rule determines."""
    for k, (axis, (title, split)) in enumerate(zip(axes, GAPS, strict=True)):
        name_panel(axis, "" if k else "D", f"loss by position: {title}")
        if found is None:
            explain(axis, "not measured yet: needs a run of GPT-mini with its weights")
            continue
        places = np.arange(1, found.gaps[split].shape[1] + 1, dtype=float)
        drawn = heat(axis, found.steps, places, found.gaps[split], log_y=False, cmap="RdBu_r", vmin=-0.7, vmax=0.7)
        mark = {"marker": "<", "color": light("rule"), "markersize": 3.5, "clip_on": False, "linestyle": "none"}
        axis.plot([1.0] * len(found.determined), found.determined + 1, transform=axis.get_yaxis_transform(), **mark)
        axis.set_ylabel("" if k else "position")
        if k:
            colour_bar(figure, drawn, axis, "nats")
