"""P1 Fig. 11: the state of every noise over training, and the transitions in three windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twoclocks.dissection.views.raster import RasterInfo, TransitionWindow, transitions_in
from twoclocks.evaluation.states import STATES
from twoclocks.papers.drawing import styled
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.dissected import GRIDS, Seen, seen
from twoclocks.report.drawings.parts import SMALL, figure_of, mark_clocks
from twoclocks.report.drawings.raster import draw_matrix, draw_noises, state_patches

NAMES = ("first values", "rule learning", "memorization")


@dataclass(frozen=True)
class TransitionsInfo:
    seen: Seen[RasterInfo]
    windows: tuple[tuple[TransitionWindow, ...], ...]  # of each seed


@FIGURES.register("fig11")
class Transitions(PaperFigure[TransitionsInfo]):
    """Top: raster; middle: counts of transitions; bottom: their probabilities."""

    id: ClassVar[str] = "fig11"
    title: ClassVar[str] = "Transitions between the states of samples"
    shows: ClassVar[str] = "state of each initial noise over training, and transitions in three windows of training"
    claims: ClassVar[tuple[str, ...]] = ("A12",)
    grids: ClassVar[tuple[str, ...]] = GRIDS

    def data(self, records: Records) -> TransitionsInfo:
        found = seen(records, "raster")
        return TransitionsInfo(found, tuple(windows_of(one) for one in found.views))

    @styled
    def draw(self, info: TransitionsInfo) -> Any:
        figure = figure_of(8.6, 8.8)
        rows = figure.add_gridspec(3, 1, height_ratios=[1.2, 1, 1])
        axis = figure.add_subplot(rows[0])
        draw_noises(axis, info.seen.first)
        figure.legend(handles=state_patches(), loc="outside upper left", ncols=4, **SMALL)
        mark_clocks(axis, info.seen.first.clocks)
        shown = info.windows[0]
        for row, what in ((1, "number of transitions"), (2, "probability")):
            axes = rows[row].subgridspec(1, len(NAMES)).subplots(squeeze=False)[0]
            for column, axis in enumerate(axes):
                if column >= len(shown):
                    axis.set_axis_off()
                    continue
                window = shown[column]
                if row == 1:
                    draw_matrix(axis, window.counts / max(window.counts.sum(), 1), window.counts)
                    axis.set_title(f"{window.name}\nsteps {window.first:,} to {window.last:,}", fontsize=8.5)
                    axis.set_xlabel("")
                else:
                    draw_matrix(axis, window.markov)
                if not column:
                    axis.set_ylabel(f"{what}\nfrom", fontsize=8.5)
        return figure

    def caption(self, info: TransitionsInfo) -> str:
        stays = "; ".join(f"{words} {stay_words(info, state)}" for state, words in STAYS.items())
        noises = info.seen.first.states.shape[1]
        return (
            f"Top: state of each of {noises:,} initial noises at every evaluation, sorted by the first copy. Below: "
            f"transitions from one evaluation to the next in three windows ({info.seen.words}). "
            f"Probability to stay in the last window{info.seen.spread}: {stays}. P1: rule errors are transient, valid "
            "and new samples and copies stay."
        )


STAYS = {"memorized": "copies", "valid-new": "valid and new", "broken": "rule errors"}


def stay_words(info: TransitionsInfo, state: str) -> str:
    """The probability to stay in a state in the last window; the range over seeds."""
    found = [float(one[-1].stay[STATES.index(state)]) for one in info.windows if one]
    known = [value for value in found if np.isfinite(value)]
    if not known:
        return "never seen there"
    low, high = f"{min(known):.2f}", f"{max(known):.2f}"
    return low if low == high else f"{np.median(known):.2f} ({low} to {high})"


def windows_of(info: RasterInfo) -> tuple[TransitionWindow, ...]:
    """Transitions in P1's windows (30–300, 10k–30k, late): relative to the first evaluation and to the clocks."""
    steps, clocks = info.steps, info.clocks
    first = float(steps[steps > 0][0])
    spans = {NAMES[0]: (first, 10 * first), NAMES[1]: (10 * first, float(steps[-1]))}
    if clocks is not None and clocks.rule.seen:
        spans[NAMES[1]] = (0.75 * clocks.rule.upper, 2.25 * clocks.rule.upper)
    late = float(steps[-max(2, len(steps) // 4)])
    spans[NAMES[2]] = (clocks.memory.upper if clocks is not None and clocks.memory.seen else late, float(steps[-1]))
    found = []
    for name, (begin, end) in spans.items():
        inside = (steps >= begin) & (steps <= end)
        if inside.sum() >= 2:
            found.append(transitions_in(name, steps[inside], info.states[inside]))
    return tuple(found)
