"""How pages are made from templates: escaped, complete, in light and dark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from twoclocks.core.pages import page_environment
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
    environment.filters["fills"] = lambda symbols: [as_css(colour) for colour in symbol_colours(symbols)]
    environment.filters.update(filters)
    day, night = css_variables()
    parts = {part.name: getattr(together, part.name) for part in fields(together)}
    return str(environment.get_template(template).render(**parts, **values, day=day, night=night))


def confidence_words(runs: Sequence[Run]) -> str:
    """The confidence with which the clocks were read, such as ``with 95% confidence``."""
    levels = sorted({run.settings.clocks.confidence for run in runs}, reverse=True)
    words = [f"with {100 * level:g}% confidence" if level else "as measured, without bounds" for level in levels]
    return " or ".join(words)
