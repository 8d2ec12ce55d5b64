"""What the drawings of papers' figures share: the style, panels and their names, colours, axes of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from twoclocks.core.theme import light, style
from twoclocks.report.drawings.parts import SMALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawn = TypeVar("Drawn", bound=Callable[..., Any])
BY_GROUP, BY_SIZE = "viridis", "plasma"  # colour maps: group sizes and numbers of samples are not confused
# Behind a legend inside a panel: curves shine through only faintly.
GROUND = {"frameon": True, "facecolor": light("paper"), "edgecolor": "none", "framealpha": 0.8}


def styled(draw: Drawn) -> Drawn:
    """Draw in the style of all our figures, whatever the caller's settings of matplotlib are."""

    @wraps(draw)
    def drawing(*arguments: Any, **options: Any) -> Any:
        import matplotlib

        with matplotlib.rc_context(style()):
            return draw(*arguments, **options)

    return drawing  # type: ignore[return-value]


def letter(axis: Any, name: str) -> None:
    """Write the letter of a panel above its left corner."""
    axis.annotate(name, (0, 1), xycoords="axes fraction", xytext=(-20, 8), **LETTER)


LETTER: dict[str, Any] = {"textcoords": "offset points", "fontweight": "bold", "fontsize": 11, "annotation_clip": False}


def log_steps(axis: Any, which: str) -> None:
    """Make an axis, "x" or "y", a logarithmic one with plain numbers and commas, as for training steps."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(axis, f"set_{which}scale")("log")
    one = getattr(axis, f"{which}axis")
    low, high = sorted(getattr(axis, f"get_{which}lim")())
    one.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    one.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,g}"))
    one.set_minor_formatter(NullFormatter())


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """A new figure of this size in inches, in our style."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**style(), "font.size": 8.5, "lines.linewidth": 1.3}):
        yield Figure(figsize=(width, height), layout="constrained")


def name_panel(axis: Any, letter: str, title: str) -> None:
    """The letter of a panel, as in the paper, and what it shows."""
    axis.set_title(f"{letter}  {title}" if letter else title, loc="left", fontsize=9)


def colours_of(values: Sequence[int], colour_map: str) -> dict[int, Any]:
    """One colour per value, in order, all of them visible on a light and on a dark page."""
    import matplotlib

    ordered = sorted(set(values))
    shades = matplotlib.colormaps[colour_map](np.linspace(0.08, 0.86, max(len(ordered), 2)))
    return dict(zip(ordered, shades, strict=False))


def explain(axis: Any, why: str) -> None:
    """Say in an empty panel why it is empty."""
    import textwrap

    axis.set_axis_off()
    axis.text(0.5, 0.5, textwrap.fill(why, 36), ha="center", va="center", fontsize=8, color=light("muted"))


def colour_legend(axis: Any, colours: Mapping[int, Any], title: str, **options: Any) -> None:
    """One line per colour."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colour, linewidth=2, label=f"{value:,}") for value, colour in colours.items()]
    place = {"loc": "best", **SMALL, **GROUND, **options}
    axis.legend(handles=handles, title=title, title_fontsize=7.5, **place)
