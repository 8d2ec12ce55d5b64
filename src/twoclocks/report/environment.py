"""How pages are made from templates: escaped, complete, in light and dark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from twoclocks.core.pages import page_environment
from twoclocks.core.text import visible
from twoclocks.core.theme import as_css, css_variables, symbol_colours
from twoclocks.report.places import run_mark
from twoclocks.report.together import Together
from twoclocks.runs.load import Run


def render_page(
    template: str,
    together: Together,
    filters: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    **values: Any,
) -> str:
    """A page from its template, with the chapters about several runs and its own values."""
    environment = page_environment("twoclocks.report")
    environment.filters["run_mark"] = run_mark
    environment.filters["cells"] = cell_paths
    environment.filters["marked"] = marked
    environment.filters.update(filters)
    day, night = css_variables()
    parts = {part.name: getattr(together, part.name) for part in fields(together)}
    return str(environment.get_template(template).render(**parts, **values, day=day, night=night))


def cell_paths(cells: Sequence[Sequence[int]], symbols: int) -> Markup:
    """The cells of a sample as one SVG path per symbol: a short stroke each."""
    paths = []
    for symbol, colour in enumerate(symbol_colours(symbols)):
        strokes = [f"M{x} {y}.5h.9" for y, row in enumerate(cells) for x, one in enumerate(row) if one == symbol]
        if strokes:
            paths.append(f'<path d="{"".join(strokes)}" stroke="{as_css(colour)}"/>')
    return Markup("".join(paths))


def marked(pieces: Sequence[tuple[str, bool]]) -> Markup:
    """A text in pieces as HTML, with those marked that both texts have."""
    shown = [(visible(text, keep="\n\t"), common) for text, common in pieces]
    return Markup("").join(Markup("<mark>{}</mark>").format(text) if common else text for text, common in shown)


def confidence_words(runs: Sequence[Run]) -> str:
    """The confidence with which the clocks were read, such as ``with 95% confidence``."""
    levels = sorted({run.settings.clocks.confidence for run in runs}, reverse=True)
    words = [f"with {100 * level:g}% confidence" if level else "as measured, without bounds" for level in levels]
    return " or ".join(words)
