"""The files of the pages and the answers of the data addresses, whether they are served or written to disk."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from twoclocks.core.theme import css_variables
from twoclocks.report.live.catalogue import Catalogue

ASSETS = {  # name: type
    "style.css": "text/css",
    "common.js": "text/javascript",
    "chart.js": "text/javascript",
    "table.js": "text/javascript",
    "run.js": "text/javascript",
}
THEME = "theme.css"  # made from the colours of all figures
DATA_SCRIPTS = "<!-- data -->"  # in a page: where the data of a static copy are loaded


def asset(name: str) -> str:
    """The text of an asset."""
    if name == THEME:
        day, night = css_variables()
        return f":root {{ {day} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {night} }} }}\n"
    return (files("twoclocks.report.live") / "assets" / name).read_text(encoding="utf-8")


def page_of(name: str | None) -> str:
    """The HTML of the table (None) or of a run; it holds no data, which scripts insert as text."""
    return asset("index.html" if name is None else "run.html")


def data_of(catalogue: Catalogue, kind: str, name: str = "") -> dict[str, Any] | None:
    """The answer of a data address: ``runs``, or ``run`` or ``details`` of an id; None where there is no such run."""
    if kind == "runs":
        return catalogue.table()
    entry = catalogue.entries.get(name)
    if entry is None:
        return None
    if kind == "run":
        found = entry.page()
        return {**found, "run": catalogue.row(entry)}
    return entry.details()


def encoded(value: Any) -> bytes:
    """JSON in ASCII without NaN."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
