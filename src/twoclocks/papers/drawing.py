"""What the drawings of papers' figures share: the style, letters of panels, logarithmic axes of steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Drawn = TypeVar("Drawn", bound=Callable[..., Any])


def styled(draw: Drawn) -> Drawn:
    """Draw in the style of all our figures, whatever the caller's settings of matplotlib are."""

    @wraps(draw)
    def drawing(*arguments: Any, **options: Any) -> Any:
        import matplotlib

        from twoclocks.core.theme import style

        with matplotlib.rc_context(style()):
            return draw(*arguments, **options)

    return drawing  # type: ignore[return-value]


def letter(axis: Any, name: str) -> None:
    """Write the letter of a panel above its left corner."""
    axis.annotate(name, (0, 1), xycoords="axes fraction", xytext=(-20, 8), **LETTER)


LETTER: dict[str, Any] = {"textcoords": "offset points", "fontweight": "bold", "fontsize": 11, "annotation_clip": False}


def log_steps(axis: Any, which: str) -> None:
    """Make an axis, "x" or "y", a logarithmic one of training steps: plain numbers with commas."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(axis, f"set_{which}scale")("log")
    one = getattr(axis, f"{which}axis")
    low, high = sorted(getattr(axis, f"get_{which}lim")())
    one.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
    one.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,g}"))
    one.set_minor_formatter(NullFormatter())
