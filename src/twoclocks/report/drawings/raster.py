"""Drawing of ``raster``: the state of every noise over training, and the transitions between states."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoclocks.dissection.views.raster import RasterInfo
from twoclocks.evaluation.states import STATES
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing, Figure
from twoclocks.report.drawings.film import Film, shoot
from twoclocks.report.drawings.parts import (
    FIXED_INK,
    SMALL,
    STATE_COLOURS,
    edges,
    figure_of,
    mark_clocks,
    on_log,
    step_axis,
)
from twoclocks.report.strip import MARKS

SHORT = {"between": "between", "broken": "broken", "valid-new": "new", "memorized": "copy"}


@DRAWINGS.register("raster")
class RasterDrawing(Drawing):
    title = "Outcome of each initial noise"
    order = 10

    def draw(self, info: RasterInfo) -> Figure:
        figure = figure_of(9.6, 6.6)
        rows = figure.add_gridspec(2, 1, height_ratios=[3, 2])
        left = rows[0].subgridspec(2, 1, height_ratios=[1, 2.2])
        draw_states(figure.add_subplot(left[0]), figure.add_subplot(left[1]), info)
        panels = rows[1].subgridspec(1, max(3, len(info.windows)))
        for column, window in enumerate(info.windows):
            axis = figure.add_subplot(panels[column])
            draw_matrix(axis, window.markov)
            axis.set_title(f"{window.name}\n(steps {window.first:,} to {window.last:,})", fontsize=8.5)
            if not column:
                axis.set_ylabel("from")
        return figure

    def film(self, info: RasterInfo) -> Film | None:
        """Transition probabilities from each evaluation to the next, and the fraction of noises in each state."""
        if len(info.steps) < 3:
            return None
        figure = figure_of(6.4, 2.9)
        left, right = figure.subplots(1, 2, width_ratios=[1.2, 1])
        transitions = info.transitions
        total = transitions.sum(axis=2, keepdims=True)
        markov = np.where(total > 0, transitions / np.maximum(total, 1), np.nan)
        picture, texts = draw_matrix(left, markov[0])
        share = info.counts / info.counts.sum(axis=1, keepdims=True)
        bars = right.barh(range(4), share[0], color=[STATE_COLOURS[state] for state in STATES])
        right.set_yticks(range(4), [SHORT[state] for state in STATES], fontsize=8)
        right.set(xlim=(0, 1), xlabel="fraction of noises")
        right.invert_yaxis()
        title = figure.suptitle(" ", fontsize=9)

        def show(index: int) -> None:
            picture.set_data(np.nan_to_num(markov[index]))
            write_numbers(texts, markov[index])
            for bar, width in zip(bars, share[index + 1], strict=True):
                bar.set_width(width)
            title.set_text(f"from step {info.steps[index]:,} to step {info.steps[index + 1]:,}")

        return shoot(figure, info.steps[1:], show)


def draw_states(top: Any, below: Any, info: RasterInfo) -> None:
    """The fraction of noises in each state over training; below, the state of every noise."""
    draw_shares(top, info)
    top.tick_params(labelbottom=False)
    draw_noises(below, info)
    below.set_xlim(top.get_xlim())


def draw_shares(axis: Any, info: RasterInfo) -> None:
    """The fraction of noises in each state over training."""
    share = info.counts / info.counts.sum(axis=1, keepdims=True)
    colours, labels = [STATE_COLOURS[state] for state in STATES], [MARKS[state][2] for state in STATES]
    axis.stackplot(info.steps, share.T, colors=colours, labels=labels, linewidth=0, alpha=0.9)
    axis.set(ylim=(0, 1), ylabel="fraction of noises")
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=4, **SMALL)
    step_axis(axis, info.steps, labelled=False)
    mark_clocks(axis, info.clocks, named=False)


def draw_noises(axis: Any, info: RasterInfo) -> None:
    """The state of every noise over training, sorted by the first copy."""
    from matplotlib.colors import ListedColormap

    states = info.states[:, info.order].T
    colour_map = {"cmap": ListedColormap([STATE_COLOURS[state] for state in STATES]), "vmin": -0.5, "vmax": 3.5}
    axis.pcolormesh(edges(on_log(info.steps)), np.arange(len(states) + 1), states, rasterized=True, **colour_map)
    axis.set(ylabel="noises, by first copy")
    axis.invert_yaxis()
    axis.grid(False)
    step_axis(axis, info.steps)


def state_patches() -> list[Any]:
    """The colours of the states, as entries of a legend."""
    from matplotlib.patches import Patch

    return [Patch(color=STATE_COLOURS[state], label=MARKS[state][2]) for state in STATES]


def draw_matrix(axis: Any, matrix: Any, counts: Any | None = None) -> tuple[Any, list[Any]]:
    """Draw a matrix of probabilities as colours and numbers; returns the picture and its texts.

    With ``counts`` these are the numbers, and the matrix the colours alone.
    """
    picture = axis.imshow(np.nan_to_num(matrix), cmap="Blues", vmin=0, vmax=1, interpolation="none")
    names = [SHORT[state] for state in STATES]
    axis.set_xticks(range(4), names, fontsize=7.5)
    axis.set_yticks(range(4), names, fontsize=7.5)
    axis.grid(False)
    texts = []
    for a in range(4):
        for b in range(4):
            texts.append(axis.text(b, a, "", ha="center", va="center", fontsize=8))
    write_numbers(texts, matrix, counts)
    axis.set_xlabel("to, at the next evaluation", fontsize=8)
    return picture, texts


def write_numbers(texts: list[Any], matrix: Any, counts: Any | None = None) -> None:
    """Write the entries of a matrix, or counts in their place, into its texts; NaN stays empty."""
    shown = [f"{value:.2f}" for value in np.ravel(matrix)] if counts is None else [f"{n:,}" for n in np.ravel(counts)]
    for text, value, number in zip(texts, np.ravel(matrix), shown, strict=True):
        text.set_text(number if np.isfinite(value) else " ")  # a film changes it later
        text.set_color("white" if np.isfinite(value) and value > 0.6 else FIXED_INK)
