"""Texts that Debian packages contain, and text8. Nothing is downloaded: the package is named, or its files are packed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.core.packed_text import PackedText
from twoclocks.data.text.bible import kjv_source
from twoclocks.data.text.options import TextOptions
from twoclocks.data.text.pack import Report, TextSource, pack_source

NAMES = ("kjv",)
BUILT_IN_BOOKS = ("Ge", "Exo", "Psa", "Mat", "Mark", "Luke", "John")  # of the text that comes with this package


def fetch(
    name: str,
    out: Path | str,
    source: Path | str | None = None,
    *,
    books: Sequence[str] = (),
    report: Report | None = None,
    **options: object,
) -> PackedText:
    """Pack a published text into the file ``out``; ``source`` is where its files lie, if not at the usual place.

    ``books``: of ``kjv``, such as ("Ge", "Mat"); none: all. UserError with the command that installs the package, if
    its files are not there. The text that comes with twoclocks is made by ``fetch("kjv", out, books=BUILT_IN_BOOKS)``.
    """
    chosen = TextOptions(**options)  # type: ignore[arg-type]
    return pack_source(_open(name, source, books), out, chosen, report)


def _open(name: str, source: Path | str | None, books: Sequence[str]) -> TextSource:
    if name not in NAMES:
        raise UnknownNameError("text", name, NAMES)
    if books and name != "kjv":
        raise UserError(f"books: belong to kjv; leave them out for {name}")
    return kjv_source(source, books)
