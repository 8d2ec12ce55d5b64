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
    figure = figure_of(0.55 * columns + 1.2, 1.45 * len(info.shown))
    axes = figure.subplots(2 * len(info.shown), columns, squeeze=False)
    for k, one in enumerate(info.shown):
        for row, (name, pixels) in enumerate((("samples", one.samples), ("nearest\ntraining image", one.nearest))):
            for column, axis in enumerate(axes[2 * k + row]):
                framed = row == 0 and bool(one.copied[column])
                draw_picture(axis, pixels[column], light("memory") if framed else light("line"), 2.0 if framed else 0.6)
            axes[2 * k + row][0].set_ylabel(name, fontsize=7.5, rotation=0, ha="right", va="center")
        axes[2 * k][0].set_title(title_of(one), fontsize=8.5, loc="left").set_in_layout(False)
    return figure


def draw_picture(axis: Any, pixels: Any, colour: str, width: float) -> None:
    axis.imshow(as_picture(pixels), interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    for side in axis.spines.values():
        side.set(visible=True, color=colour, linewidth=width)


def draw_texts(info: ExamplesInfo) -> Figure:
    """One column per step: each text, and in the colour of memory its nearest training text."""
    figure = figure_of(4.8 * len(info.shown), 6.4)
    for axis, one in zip(figure.subplots(1, len(info.shown), squeeze=False)[0], info.shown, strict=True):
        axis.set_axis_off()
        axis.set_title(title_of(one), fontsize=8.5, loc="left")
        pairs = list(zip(one.sample_texts, one.nearest_texts, strict=True))[:MOST_TEXTS]
        for k, (sample, nearest) in enumerate(pairs):
            for shift, text, colour in ((0.0, sample, "ink"), (0.42, nearest, "memory")):
                words = "\n".join(textwrap.wrap(text, LETTERS)[:5])
                where = {"transform": axis.transAxes, "va": "top", "fontsize": 6.5, "family": "monospace"}
                axis.text(0, 1 - (k + shift) / MOST_TEXTS, words, color=light(colour), **where)
    return figure
