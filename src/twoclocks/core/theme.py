"""Colours: one name each, with a light and a dark value (Okabe–Ito hues, which colour-blind readers can distinguish).

Figures are drawn in the light values; in a page the SVG's colours become CSS variables, so one drawing serves light,
dark and paper.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from colorsys import hls_to_rgb
from contextlib import contextmanager
from functools import cache
from typing import Any

from twoclocks.core.svg import TAG, compact_svg, labelled_svg
from twoclocks.core.text import visible

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
# Tried in this order for characters that DejaVu Sans, which comes with matplotlib, has not; where they are installed.
FALLBACKS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Hiragino Sans", "Arial Unicode MS"),
    *("Noto Emoji", "Noto Sans Symbols2"),
)
NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))  # it would name websites in every page


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
        "font.family": ["sans-serif", *fallback_fonts()],
        "font.size": 9.5,
        "svg.fonttype": "none",
        "text.parse_math": False,  # a name may contain dollars; no label of ours is a formula
        "text.usetex": False,
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


@cache
def fallback_fonts() -> list[str]:
    """Fonts of this machine for other scripts and emoji."""
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return [name for name in FALLBACKS if name in installed]


def question_mark() -> Any:
    """A marker; matplotlib's own markers of text are formulas, which the style does not allow."""
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    mark = TextPath((0, 0), "?", size=1)
    box = mark.get_extents()
    return mark.transformed(Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2))


@contextmanager
def drawn(figure: Any) -> Iterator[None]:
    """A context in which a figure can be saved: our style, visible characters, no warning of a missing glyph."""
    import matplotlib
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(visible(text.get_text(), keep="\n"))
    with matplotlib.rc_context(style()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a box is drawn in its place
        yield


def picture(figure: Any, kind: str = "png", **options: Any) -> bytes:
    """A figure as the bytes of a picture file, ``png`` by default; nothing in it names the machine or the day."""
    stream = io.BytesIO()
    with drawn(figure):
        figure.savefig(stream, format=kind, **{"dpi": 160, **options})
    return stream.getvalue()


def themed_svg(figure: Any, salt: str, label: str = "", tight: bool = True, **options: Any) -> str:
    """A figure as inline SVG that follows the page's theme; ``salt`` keeps the ids of several figures apart.

    ``label``: what a screen reader reads in its place, with the numbers; ``tight``: without margins; ``options``: of
    ``compact_svg``.
    """
    svg = compact_svg(plain_svg(figure, salt, tight), **options)

    def themed(tag: re.Match[str]) -> str:
        found = tag.group()
        for day, _ in COLOURS.values():
            found = found.replace(day, as_css(day))
        found = found.replace('id="', f'id="{salt}-').replace('href="#', f'href="#{salt}-')
        return found.replace("url(#", f"url(#{salt}-")

    # Not in the text between tags, which may be anybody's.
    return labelled_svg(TAG.sub(themed, svg), visible(label))


def plain_svg(figure: Any, salt: str, tight: bool = True) -> str:
    """A figure as SVG in the light colours."""
    import matplotlib

    stream = io.StringIO()
    with drawn(figure), matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(stream, format="svg", metadata=NO_METADATA, bbox_inches="tight" if tight else None)
    svg = stream.getvalue()
    return svg[svg.index("<svg") :]
