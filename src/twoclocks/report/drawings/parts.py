"""Building blocks of the drawings: steps to show, axes of training steps, heat maps, marks of the clocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.window import Clocks
from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light

SPLIT_STYLES = {  # split: label and colour
    "train": ("training set", "memory"),
    "held_out": ("valid, unseen", "new"),
    "cube": ("uniform symbols", "muted"),
}
ORACLES = {"cube": "muted", "rule": "rule", "memory": "memory", "alike": "line"}
STATE_COLOURS = {"between": "#6b7583", "broken": "#94567f", "valid-new": "#0a8a66", "memorized": "#c95a0c"}
FIXED_INK = "#16191d"  # on pictures, whose colours do not follow the page's theme
SMALL = {"fontsize": 7.5, "handlelength": 1.6, "labelspacing": 0.25, "columnspacing": 1.0, "borderaxespad": 0.2}


def figure_of(width: float, height: float) -> Any:
    """An empty matplotlib figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def shown_steps(steps: npt.NDArray[np.int64], clocks: Clocks | None, count: int = 4) -> list[int]:
    """Indices of the steps to show: the first, the last before τ_rule, the middle of the window, the last."""
    wanted = [float(steps[0]), float(steps[-1])]
    if clocks is not None and clocks.rule.seen and clocks.rule.lower > 0:
        wanted.append(clocks.rule.lower)
    if clocks is not None and clocks.window is not None:
        wanted.append(float(np.sqrt(clocks.window[0] * min(clocks.window[1], steps[-1]))))
    if len(wanted) < count:
        low, high = np.log(max(steps[0], 1)), np.log(max(steps[-1], 1))
        wanted += np.exp(np.linspace(low, high, count)).tolist()[1:-1][: count - len(wanted)]
    places = np.log(np.maximum(steps, 1))
    return sorted({int(np.abs(places - np.log(max(want, 1))).argmin()) for want in wanted})


def on_log(steps: npt.NDArray[np.int64] | Floats) -> Floats:
    """Steps for a logarithmic axis; step 0 is shown at 0.5."""
    return np.maximum(steps.astype(np.float64), 0.5)


def step_axis(axis: Any, steps: npt.NDArray[np.int64], labelled: bool = True) -> None:
    """Set up a logarithmic x axis of training steps."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = float(on_log(steps)[0]), float(on_log(steps)[-1])
    axis.set_xscale("log")
    axis.set_xlim(low, max(high, low * 1.01))
    parts = (1, 2, 5) if high < 20 * low else (1, 3) if high < 400 * low else (1,)
    axis.xaxis.set_major_locator(LogLocator(subs=parts))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    if labelled:
        axis.set_xlabel("training step")


def plain_log(axis: Any, which: str) -> None:
    """Make an axis, "x" or "y", logarithmic, with plain numbers."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    getattr(axis, f"set_{which}scale")("log")
    one = getattr(axis, f"{which}axis")
    one.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,g}"))
    one.set_minor_formatter(NullFormatter())


def edges(values: Floats, logarithmic: bool = True) -> Floats:
    """Borders of cells around increasing values (n,): (n + 1,)."""
    shown = np.log(values) if logarithmic else np.asarray(values, dtype=np.float64)
    if len(shown) == 1:
        found = np.array([shown[0] - 0.5, shown[0] + 0.5])
    else:
        middle = (shown[1:] + shown[:-1]) / 2
        found = np.concatenate([[2 * shown[0] - middle[0]], middle, [2 * shown[-1] - middle[-1]]])
    return np.exp(found) if logarithmic else found


def heat(
    axis: Any, steps: npt.NDArray[np.int64], y: Floats, values: Floats, log_y: bool = True, **image_options: Any
) -> Any:
    """Draw values (steps, y) as a heat map over steps; NaN stays empty."""
    drawn = axis.pcolormesh(edges(on_log(steps)), edges(y, log_y), values.T, rasterized=True, **image_options)
    axis.set_xscale("log")
    if log_y:
        plain_log(axis, "y")
    axis.grid(False)
    step_axis(axis, steps)
    return drawn


def mark_clocks(axis: Any, clocks: Clocks | None, named: bool = True) -> None:
    """Shade the intervals of τ_rule (of data without a rule τ_gen) and τ_mem."""
    if clocks is None:
        return
    low, high = axis.get_xlim()
    first = (clocks.rule, "rule", "τ_rule") if clocks.has_rule else (clocks.generation, "new", "τ_gen")
    for onset, colour, name in (first, (clocks.memory, "memory", "τ_mem")):
        if onset is not None and onset.seen:
            left = max(onset.lower, low)
            axis.axvspan(left, min(onset.upper, high), color=light(colour), alpha=0.16, linewidth=0, zorder=0)
            if named:
                place = {"transform": axis.get_xaxis_transform(), "fontsize": 7.5, "va": "bottom", "ha": "left"}
                axis.text(left, 1.005, name, color=light(colour), **place)
    axis.set_xlim(low, high)


def line_with_band(axis: Any, x: Any, middle: Any, low: Any, high: Any, colour: Any, **line_style: Any) -> None:
    """Draw a line and shade the band from ``low`` to ``high``."""
    axis.plot(x, middle, color=colour, **line_style)
    axis.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def shades(count: int) -> Any:
    """Colours from early to late, visible on light and on dark pages."""
    import matplotlib

    return matplotlib.colormaps["viridis"](np.linspace(0.25, 0.82, count))


def colour_bar(figure: Any, drawn: Any, axes: Any, label: str) -> None:
    """Add a colour bar for ``drawn`` beside ``axes``."""
    bar = figure.colorbar(drawn, ax=axes, pad=0.02, fraction=0.05)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7.5)
    bar.outline.set_visible(False)
