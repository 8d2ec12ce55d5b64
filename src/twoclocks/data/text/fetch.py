"""Texts of Debian packages, and text8. Nothing is downloaded: the package is named, or its files are packed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.core.packed_text import PackedText
from twoclocks.data.text.bible import kjv_source
from twoclocks.data.text.options import TextOptions
from twoclocks.data.text.packing import Report, TextSource, pack_source
from twoclocks.data.text.published import text8_source, wordnet_source, words_source

NAMES = ("words", "kjv", "wordnet", "text8")
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

    ``books``: of ``kjv``, such as ("Ge", "Mat"); none: all. ``options`` are those of ``TextOptions``, except that every
    text has its own documents. UserError with the command that installs the package, if its files are not there.

    The text that comes with twoclocks is made by ``fetch("kjv", out, books=BUILT_IN_BOOKS)``.
    """
    if name not in NAMES:
        raise UnknownNameError("text", name, NAMES)
    if "documents" in options:
        raise UserError(f"documents: {name} has its own; leave them out, or use twoclocks data pack")
    for option, given, owner in (("books", bool(books), "kjv"), ("block", "block" in options, "text8")):
        if given and name != owner:
            raise UserError(f"{option}: belongs to {owner}; leave it out for {name}")
    if name == "text8":
        options = {**options, "documents": "block"}
    chosen = TextOptions(**options)  # type: ignore[arg-type]
    return pack_source(_open(name, source, books, chosen), out, chosen, report)


def _open(name: str, source: Path | str | None, books: Sequence[str], options: TextOptions) -> TextSource:
    if name == "kjv":
        return kjv_source(source, books)
    if name == "text8":
        return text8_source(source, options)
    return words_source(source) if name == "words" else wordnet_source(source)
