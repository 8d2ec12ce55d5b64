"""A figure as a page shows it: SVG with a text alternative, and the values of its lines, which the script shows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from twoclocks.core.svg import PANEL, svg_width
from twoclocks.core.text import visible
from twoclocks.core.theme import as_css, themed_svg
from twoclocks.report.legends import clear_legends

LEAST_POINTS = 3  # of a line whose values are shown; chance levels and thresholds have two
DIGITS = 4  # of a value
Values = list[float | int | None]
Line = list[Any]  # name, colour, number of its places in the panel, values


def plot(figure: Any, salt: str, label: str) -> str:
    """The figure in a box that scrolls on narrow screens, and the values of its lines.

    ``salt`` keeps the ids of several figures apart; ``label`` is what a screen reader reads in its place.
    """
    clear_legends(figure)
    for number, axis in enumerate(figure.axes):
        axis.patch.set_gid(f"{PANEL}{number}")
    svg = themed_svg(figure, salt, label)
    found = f'<div class="plot" style="--w: {svg_width(svg)}">{svg}</div>'
    panels = [
        panel for number, axis in enumerate(figure.axes) if (panel := panel_values(axis, f"{salt}-{PANEL}{number}"))
    ]
    if not panels:
        return found
    values = json.dumps(panels, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return f'{found}<script type="application/json" class="values">{values}</script>'


def panel_values(axis: Any, name: str) -> dict[str, Any]:
    """Limits of the axes and all named lines of a panel; empty without such lines."""
    places: list[Values] = []
    lines: list[Line] = []
    for line in axis.get_lines():
        x, y = (np.asarray(values, dtype=np.float64) for values in line.get_data())
        if line.get_label().startswith("_") or len(x) < LEAST_POINTS or not (np.diff(x) > 0).all():
            continue
        at = numbers(x)
        if at not in places:
            places.append(at)
        lines.append([visible(line.get_label()), css_colour(line.get_color()), places.index(at), numbers(y)])
    if not lines:
        return {}
    return {
        "id": name,
        "on": visible(axis.get_xlabel()) or "training step",
        "x": [*map(float, axis.get_xlim()), int(axis.get_xscale() == "log")],
        "y": [*map(float, axis.get_ylim()), int(axis.get_yscale() == "log")],
        "at": places,
        "lines": lines,
    }


def numbers(values: Any) -> Values:
    """Values with a few digits, steps as integers; None where there is no number."""
    return [number(float(value)) if np.isfinite(value) else None for value in values]


def number(value: float) -> float | int:
    short = float(f"{value:.{DIGITS}g}") if abs(value) < 10**DIGITS else round(value)
    return int(short) if short == int(short) else short


def css_colour(colour: Any) -> str:
    """A colour of matplotlib for CSS, which follows the theme where it is one of the theme's."""
    from matplotlib.colors import to_hex

    return as_css(to_hex(colour))
