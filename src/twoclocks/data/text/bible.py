"""The King James Bible of Debian's packages ``bible-kjv`` and ``bible-kjv-text``: one document per chapter."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.core.reading import read_file
from twoclocks.data.text.packing import TextSource
from twoclocks.data.text.sources import source_of_texts

INSTALL = "apt install bible-kjv bible-kjv-text"
DATA = "/usr/lib/bible.data"  # the text, in a format of its own that the program unpacks
COMMAND = ("bible", "-f", "-p", "/usr/lib", "Ge1:1-Rev22:21")  # every verse on a line, after its reference
VERSES_SHA256 = "cd45f0c9cedab8e4439bd6486c8952c77cc8b0ecc5d1f6ae3513f2039f47229d"  # of what it prints, 31,102 verses
VERSE = re.compile(r"(\d?[A-Za-z]+)(\d+):(\d+) (.*)")
MOST_BYTES = 1 << 24
MOST_SECONDS = 60


def kjv_source(source: Path | str | None, books: Sequence[str] = ()) -> TextSource:
    """The chapters of all books, or of those that are named as the program names them (Ge, Exo, Psa, Mat, …).

    ``source``: a file with the program's output, where the program itself is not installed.
    """
    chapters = _chapters(_verses(source))
    known = list(dict.fromkeys(book for book, _ in chapters))
    for book in books:
        if book not in known:
            raise UnknownNameError("book", book, known)
    chosen = {f"{book} {number}": text for (book, number), text in chapters.items() if not books or book in books}
    options = {"documents": "chapter", "books": " ".join(book for book in known if book in books) or None}
    return source_of_texts("King James Bible, one document per chapter (Debian's bible-kjv-text)", chosen, options)


def _verses(source: Path | str | None) -> str:
    """All verses, one per line after its reference; the SHA-256 says that they are the known ones."""
    data, named = (_run_program(), COMMAND[0]) if source is None else (read_file(source, MOST_BYTES), str(source))
    found = hashlib.sha256(data).hexdigest()
    if found != VERSES_SHA256:
        fix = f"install the packages again ({INSTALL}), or name the output of {' '.join(COMMAND)} with --from"
        raise UserError(f"{named}: the verses have the SHA-256 {found[:12]}… instead of {VERSES_SHA256[:12]}…; {fix}")
    return data.decode("ascii")


def _run_program() -> bytes:
    """What the program prints; it is never asked to look for its text in the current folder."""
    program = shutil.which(COMMAND[0])
    if program is None or not Path(DATA).is_file():
        fix = f"run {INSTALL}, or name a file with the output of {' '.join(COMMAND)} with --from"
        raise UserError(f"kjv: the program bible or its text is not installed; {fix}")
    try:
        done = subprocess.run(
            [program, *COMMAND[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=MOST_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"{program}: fails ({error}); install it again ({INSTALL})") from None
    return done.stdout


def _chapters(verses: str) -> dict[tuple[str, int], str]:
    """The text of every chapter, one verse per line, by book and number."""
    found: dict[tuple[str, int], list[str]] = {}
    for line in verses.splitlines():
        verse = VERSE.fullmatch(line)
        if verse is None:
            raise UserError(f"kjv: {line[:40]!r} is no verse; install the packages again ({INSTALL})")
        book, chapter, _, text = verse.groups()
        found.setdefault((book, int(chapter)), []).append(text)
    return {place: "\n".join(lines) for place, lines in found.items()}
