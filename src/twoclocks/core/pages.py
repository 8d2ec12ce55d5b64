"""Templates of HTML pages: every value is escaped, and shown with its invisible characters visible."""

from __future__ import annotations

from typing import Any

from twoclocks.core.text import visible


def page_environment(package: str) -> Any:
    """The jinja2 environment of a package's templates; an unknown name in a template is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        return visible(value, keep="\n\t") if isinstance(value, str) and not isinstance(value, Markup) else value

    return Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
