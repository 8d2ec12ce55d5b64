"""Colours: one name each, with a light and a dark value (Okabe–Ito hues, which colour-blind readers can distinguish).

Figures are drawn in the light values; in a page the SVG's colours become CSS variables, so one drawing serves light,
dark and paper.
"""

from __future__ import annotations

import io
from colorsys import hls_to_rgb
from typing import Any

COLOURS: dict[str, tuple[str, str]] = {  # name: (light, dark)
    "ink": ("#1c2430", "#e8ecf1"),
    "muted": ("#67717f", "#9aa5b3"),
    "line": ("#d5dae1", "#343d49"),
    "paper": ("#fefefe", "#12161c"),
    "rule": ("#0067a9", "#56b4e9"),
    "memory": ("#c24e00", "#f0883e"),
    "new": ("#00805c", "#3ec99f"),
    "broken": ("#8a4c77", "#cc79a7"),
    "window": ("#dff1ea", "#16352c"),
}


def light(name: str) -> str:
    return COLOURS[name][0]


def symbol_colours(symbols: int) -> list[str]:
    """A colour for each symbol: dark on light for bits, otherwise hues around the wheel in changing lightness."""
    if symbols == 2:
        return [light("line"), light("ink")]
    wheel = [hls_to_rgb(k / symbols, (0.42, 0.56, 0.7)[k % 3], 0.6) for k in range(symbols)]
    return ["#" + "".join(f"{round(255 * part):02x}" for part in colour) for colour in wheel]


def as_css(colour: str) -> str:
    """A light value as the variable that follows the theme; other colours as they are."""
    names = {day: name for name, (day, _) in COLOURS.items()}
    return f"var(--{names[colour]})" if colour in names else colour


def css_variables() -> tuple[str, str]:
    """The variable declarations of the light and of the dark theme."""
    pairs = [(f"--{name}: {pair[0]};", f"--{name}: {pair[1]};") for name, pair in COLOURS.items()]
    return " ".join(day for day, _ in pairs), " ".join(night for _, night in pairs)


def style() -> dict[str, Any]:
    """Matplotlib settings for every figure; used in a context, so that nothing changes on import."""
    return {
        "font.family": "sans-serif",
        "font.size": 9.5,
        "svg.fonttype": "none",
        "text.color": light("ink"),
        "axes.edgecolor": light("muted"),
        "axes.labelcolor": light("ink"),
        "axes.facecolor": light("paper"),
        "figure.facecolor": light("paper"),
        "savefig.facecolor": light("paper"),
        "xtick.color": light("muted"),
        "ytick.color": light("muted"),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": light("line"),
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
    }


def themed_svg(figure: Any, salt: str) -> str:
    """A figure as inline SVG that follows the page's theme; ``salt`` keeps the ids of several figures apart."""
    import matplotlib

    stream = io.StringIO()
    with matplotlib.rc_context({**style(), "svg.hashsalt": salt}):
        figure.savefig(stream, format="svg", metadata={"Date": None}, bbox_inches="tight")
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]
    for day, _ in COLOURS.values():
        svg = svg.replace(day, as_css(day))
    return svg.replace('id="', f'id="{salt}-').replace('href="#', f'href="#{salt}-').replace("url(#", f"url(#{salt}-")
