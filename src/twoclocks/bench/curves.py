"""Curves of cost against size, one panel for each size that grows."""

from __future__ import annotations

from typing import Any

from twoclocks.bench.growth import GROWTH, Axis, Row, curve, exponents
from twoclocks.core.theme import light, style

PANELS: dict[Axis, str] = {"n": "training rows N", "length": "entries of a row D", "samples": "samples"}
LETTERS: dict[Axis, str] = {"n": "N", "length": "D", "samples": "samples"}
COLOURS = {"prepare copies": "new", "find copies": "memory", "nearest": "rule"}
DASHES = {"cpu": (0, (4, 2)), "cuda": "-"}


def draw(rows: list[Row]) -> Any:
    """Seconds against every size, in logarithms, with the power of growth at the large end and what theory says."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    fits = {(fit["device"], fit["quantity"], fit["against"]): fit for fit in exponents(rows)}
    devices = list(dict.fromkeys(row["device"] for row in rows))
    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(12.6, 3.6 + len(devices)), layout="constrained")
        axes = figure.subplots(1, len(PANELS), sharey=True)
        for axis, (against, label) in zip(axes, PANELS.items(), strict=True):
            for device in devices:
                for quantity in (quantity for quantity, size in GROWTH if size == against):
                    points = curve(rows, device, quantity, against)
                    if points:
                        fit = fits.get((device, quantity, against))
                        draw_curve(axis, points, describe(points[0], fit))
            axis.set(xscale="log", yscale="log", xlabel=label)
            for one in (axis.xaxis, axis.yaxis):
                one.set_major_formatter(FuncFormatter(lambda value, position: axis_number(value)))
                one.set_minor_formatter(NullFormatter())
            # Below the panel, where no curve can run through it.
            if axis.has_data():
                axis.legend(loc="upper left", bbox_to_anchor=(-0.04, -0.17), fontsize=8, handlelength=3)
        axes[0].set_ylabel("seconds")
        return figure


def draw_curve(axis: Any, points: list[Row], label: str) -> None:
    first = points[0]
    device = str(first["device"]).partition(":")[0]
    line_style = {
        "color": light(COLOURS[first["quantity"]]),
        "linestyle": DASHES[device],
        "marker": "o",
        "markersize": 3.5,
    }
    sizes = [point[first["against"]] for point in points]
    axis.plot(sizes, [point["seconds"] for point in points], label=label, **line_style)


def describe(first: Row, fit: Row | None) -> str:
    """A curve in words: where, what, at which other sizes, how it grows."""
    others = [f"{LETTERS[size]} {first[size]:,}" for size in PANELS if size != first["against"]]
    if first["quantity"] == "prepare copies":  # no sample takes part
        others = [word for word in others if not word.startswith("samples")]
    place = {"cpu": "CPU", "cuda": "GPU"}[str(first["device"]).partition(":")[0]]
    growth = "" if fit is None else f"\npower {fit['measured']:.2f}, in theory {fit['theory']:.2f} ({fit['law']})"
    return f"{first['quantity']}, {place} ({', '.join(others)}){growth}"


def axis_number(value: float) -> str:
    """A number as an axis shows it.

    >>> axis_number(0.001), axis_number(10_000_000)
    ('0.001', '10,000,000')
    """
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
