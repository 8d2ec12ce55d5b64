"""Figure of samples of every rule (P1 Figs. 5 and 6): one panel per published size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.theme import light, symbol_colours
from twoclocks.data.encodings import layout, squarest
from twoclocks.rules.base import RULES, Rule


@dataclass(frozen=True)
class Panel:
    """Samples of one rule."""

    title: str
    symbols: int
    samples: npt.NDArray[np.int64]  # (n, rows, columns)


@dataclass(frozen=True)
class MontageInfo:
    rows: list[list[Panel]]


def montage_data(names: Sequence[str], samples: int, columns: int | None = None, seed: int = 0) -> MontageInfo:
    """One panel per published size of each named rule: in rows of ``columns`` panels, or one row per rule."""
    rows = []
    for name in names:
        examples = RULES.get(name).examples
        rows.append([panel(name, RULES.create(name, **example), samples, seed) for example in examples])
    if columns is not None:
        panels = [panel for row in rows for panel in row]
        rows = [panels[first : first + columns] for first in range(0, len(panels), columns)]
    return MontageInfo(rows)


def panel(name: str, rule: Rule, samples: int, seed: int) -> Panel:
    values = [getattr(rule, field) for field in rule.examples[0]]
    words = ", ".join("{" + ", ".join(map(str, v)) + "}" if isinstance(v, tuple) else str(v) for v in values)
    grids = rule.sample(samples, seed).reshape(samples, *layout(rule)).numpy()
    return Panel(f"{name}({words})", rule.symbols, grids)


def draw_montage(info: MontageInfo, width: float = 7.6) -> Any:
    """Draw the panels; the samples of a panel form a grid as square as possible."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    columns = max(len(row) for row in info.rows)
    pictures = [[tiled(panel) for panel in row] for row in info.rows]
    heights = [max(p.shape[0] / p.shape[1] for p in row) for row in pictures]
    cell = width / columns
    figure = Figure(figsize=(width, sum(cell * height * 0.9 + 0.34 for height in heights)), layout="constrained")
    axes = figure.subplots(len(info.rows), columns, squeeze=False, height_ratios=[h + 0.1 for h in heights])
    for axis in axes.flat:
        axis.set_axis_off()
    for row, (panels, images) in enumerate(zip(info.rows, pictures, strict=True)):
        for column, (panel, image) in enumerate(zip(panels, images, strict=True)):
            colours = ListedColormap([light("paper"), *symbol_colours(panel.symbols)])
            axes[row, column].imshow(image + 1, cmap=colours, vmin=0, vmax=panel.symbols, interpolation="nearest")
            axes[row, column].set_title(panel.title, fontsize=8, color=light("ink"), family="monospace")
    return figure


def tiled(panel: Panel, zoom: int = 4) -> npt.NDArray[np.int64]:
    """All samples in one picture, separated by −1; every entry is ``zoom`` pixels wide."""
    down, across = squarest(len(panel.samples))
    _, rows, columns = panel.samples.shape
    picture = np.full((down * (rows + 1) - 1, across * (columns + 1) - 1), -1)
    for number, grid in enumerate(panel.samples):
        top, left = number // across * (rows + 1), number % across * (columns + 1)
        picture[top : top + rows, left : left + columns] = grid
    return picture.repeat(zoom, axis=0).repeat(zoom, axis=1)
