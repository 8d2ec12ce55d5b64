"""Drawing of ``examples``: samples before τ_mem and at the end, each above its nearest training image or text."""

from __future__ import annotations

import textwrap
from typing import Any

from twoclocks.core.theme import light
from twoclocks.dissection.views.examples import Examples, ExamplesInfo
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing, Figure
from twoclocks.report.drawings.parts import figure_of
from twoclocks.report.pictures import as_picture

MOST_TEXTS = 4  # of one step
LETTERS = 58  # per line of a text
LINE_HEIGHT = 0.13  # inches
NAMES = 1.2  # inches for the names of the rows


@DRAWINGS.register("examples")
class ExamplesDrawing(Drawing):
    title = "Samples before τ_mem and at the end"
    order = 5

    def draw(self, info: ExamplesInfo) -> Figure:
        return draw_images(info) if info.images else draw_texts(info)


def title_of(one: Examples) -> str:
    return f"step {one.step:,}: {one.copy_rate:.0%} copies"


def draw_images(info: ExamplesInfo) -> Figure:
    """Two rows of pictures per step: samples, and below them the nearest training images; copies are framed."""
    columns = len(info.shown[-1].samples)
    width = 0.55 * columns + NAMES
    figure = figure_of(width, 1.6 * len(info.shown))
    figure.set_layout_engine("none")  # with one, names and titles move the columns apart
    places = {"left": NAMES / width, "right": 0.995, "bottom": 0.01, "top": 0.9, "hspace": 0.55, "wspace": 0.15}
    axes = figure.subplots(2 * len(info.shown), columns, squeeze=False, gridspec_kw=places)
    for k, one in enumerate(info.shown):
        for row, (what, pixels) in enumerate((("samples", one.samples), ("nearest\ntraining image", one.nearest))):
            for column, axis in enumerate(axes[2 * k + row]):
                framed = row == 0 and bool(one.copied[column])
                draw_picture(axis, pixels[column], light("memory") if framed else light("line"), 2.0 if framed else 0.6)
            left = axes[2 * k + row][0]
            left.text(-0.15, 0.5, what, transform=left.transAxes, fontsize=7.5, ha="right", va="center")
        axes[2 * k][0].set_title(title_of(one), fontsize=8.5, loc="left")
    return figure


def draw_picture(axis: Any, pixels: Any, colour: str, width: float) -> None:
    axis.imshow(as_picture(pixels), interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    for side in axis.spines.values():
        side.set(visible=True, color=colour, linewidth=width)


def draw_texts(info: ExamplesInfo) -> Figure:
    """One column per step: each text, and below it, in the colour of memory, its nearest training text."""
    shown = [list(zip(one.sample_texts, one.nearest_texts, strict=True))[:MOST_TEXTS] for one in info.shown]
    lines = max(len(textwrap.wrap(text, LETTERS)) for pairs in shown for pair in pairs for text in pair)
    each = 2 * lines + 1  # lines of a pair and the space behind it
    figure = figure_of(4.8 * len(info.shown), 0.4 + LINE_HEIGHT * each * max(map(len, shown)))
    for axis, one, pairs in zip(figure.subplots(1, len(shown), squeeze=False)[0], info.shown, shown, strict=True):
        axis.set_axis_off()
        axis.set_title(title_of(one), fontsize=8.5, loc="left")
        for k, (sample, nearest) in enumerate(pairs):
            for below, text, colour in ((0, sample, "ink"), (lines, nearest, "memory")):
                where = {"transform": axis.transAxes, "va": "top", "fontsize": 6.5, "family": "monospace"}
                height = 1 - (each * k + below) / (each * len(pairs))
                axis.text(0, height, "\n".join(textwrap.wrap(text, LETTERS)), color=light(colour), **where)
    return figure
