"""Pack a text: documents as tokens in one file, equal documents once. Memory does not grow with the text."""

from __future__ import annotations

import hashlib
import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from twoclocks.core.errors import UserError
from twoclocks.core.packed_file import file_state
from twoclocks.core.packed_text import (
    PackedText,
    Tokens,
    make_packed_text,
    read_packed_text,
    token_type,
    write_packed_text,
)
from twoclocks.data.text.encoders import Bytes, Characters, Encoder, HuggingFace, Letters
from twoclocks.data.text.options import TextOptions

Report = Callable[[int, int, str], None]  # characters done, of how many (at most), name of the document
Event = str | int  # a part of a document's text, or, where a document ends, its number in the source

MOST_DOCUMENTS = 2_000_000  # about 270 bytes of memory each, for the search for duplicates and for the header
MOST_LISTED = 1000  # duplicates in the header of the packed file; all are counted
REPORT_EVERY = 1 << 20  # characters


@dataclass(frozen=True)
class TextSource:
    """Where documents come from. ``events`` can be read several times and never holds the whole text."""

    words: str  # for people, and for the header of the packed file
    size: int  # bytes
    events: Callable[[], Iterator[Event]]
    name: Callable[[int], str]  # of a document, by its number
    options: dict[str, Any] = field(default_factory=dict)  # what else was chosen, for the header
    skipped: tuple[str, ...] = ()
    is_running: bool = False  # the documents are blocks of one running text
    files: tuple[Path, ...] = ()  # that are read, several times


def pack_source(source: TextSource, out: Path | str, options: TextOptions, report: Report | None = None) -> PackedText:
    """Write all documents of a source to the packed file ``out``, which is returned as it can be read there.

    Equal documents are dropped unless they are to be kept: else a held-out document could be a training document.
    """
    _check_out(out, source)
    before = [file_state(path) for path in source.files]
    encoder = make_encoder(source, options)
    with _scratch_file(out) as stream:
        try:
            documents = _encode_documents(source, encoder, stream, options, report)
            stream.flush()
        except OSError as error:
            raise UserError(f"{out}: cannot be written ({error.strerror}); choose a file on another disk") from None
        _check_documents(source, documents)
        if [file_state(path) for path in source.files] != before:
            raise UserError(f"{source.words}: was changed while it was read; pack it again when nobody writes to it")
        tokens = np.memmap(stream, dtype=token_type(encoder.vocabulary.symbols), mode="r")
        counts = {"skipped": len(source.skipped), "duplicates": documents.dropped, "empty": documents.empty}
        counts |= encoder.lost()
        origin = {
            "source": source.words,
            "options": {**options.in_words(), **source.options},
            "skipped": list(source.skipped),
            "duplicates": documents.listed,
            "counts": counts,
            "characters": documents.characters,
        }
        write_packed_text(make_packed_text(tokens, np.array(documents.starts), encoder.vocabulary, origin), out)
    return read_packed_text(out)


def _check_out(out: Path | str, source: TextSource) -> None:
    """The packed file must not replace the text."""
    is_source = False
    with suppress(OSError, ValueError):  # a name that no file can have is refused later
        is_source = Path(out).exists() and any(path.samefile(out) for path in source.files)
    if is_source:
        raise UserError(f"{out}: is the text itself, which would be lost; name another file with --out")


@contextmanager
def _scratch_file(out: Path | str) -> Iterator[IO[bytes]]:
    """A file without a name, which vanishes with this process; beside ``out``, since /tmp may lie in memory."""
    try:
        stream = tempfile.TemporaryFile(dir=Path(out).parent)  # noqa: SIM115 (closed below)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file can have this name"
        raise UserError(f"{out}: cannot be written ({reason}); choose a file in a writable folder") from None
    try:
        yield stream
    finally:
        with suppress(OSError):  # what could not be written has been said before
            stream.close()


def make_encoder(source: TextSource, options: TextOptions) -> Encoder:
    """The encoder of the chosen tokens; for characters, the source is read once."""
    if options.tokens == "letters":
        return Letters(source.is_running)
    if options.tokens == "bytes":
        return Bytes()
    if options.tokens == "characters":
        return Characters((event for event in source.events() if isinstance(event, str)), source.words)
    return HuggingFace(str(options.tokens))


@dataclass
class _Documents:
    """What is known of the documents that have been written so far."""

    starts: array[int] = field(default_factory=lambda: array("q", [0]))  # in tokens
    numbers: array[int] = field(default_factory=lambda: array("q"))  # of the kept documents, in the source
    seen: dict[bytes, int] = field(default_factory=dict)  # hash of a document's tokens: which kept document it is
    listed: list[list[str]] = field(default_factory=list)  # names of dropped documents and of their first copies
    characters: int = 0  # of the source, in the kept documents
    dropped: int = 0
    empty: int = 0


def _encode_documents(
    source: TextSource, encoder: Encoder, stream: IO[bytes], options: TextOptions, report: Report | None
) -> _Documents:
    """Write the tokens of all documents that are kept to the stream."""
    documents = _Documents()
    itemsize = token_type(encoder.vocabulary.symbols).itemsize
    length, begun = 0, 0  # tokens of this document; characters before it
    done, reported = 0, 0  # characters read; characters at the last report
    digest = hashlib.blake2b(digest_size=16)

    def write(tokens: Tokens) -> None:
        nonlocal length
        digest.update(tokens.data)
        stream.write(tokens.data)
        length += len(tokens)

    for event in source.events():
        if isinstance(event, str):
            write(encoder.encode(event))
            done += len(event)
        else:
            write(encoder.finish())
            if not _keep(documents, source, event, length, digest.digest(), options.keep_duplicates):
                stream.seek(documents.starts[-1] * itemsize)
                stream.truncate()
            else:
                documents.characters += done - begun
            length, begun, digest = 0, done, hashlib.blake2b(digest_size=16)
        if report is not None and done - reported >= REPORT_EVERY:
            reported = done
            report(min(done, source.size), source.size, source.words)
    return documents


def _keep(
    documents: _Documents, source: TextSource, number: int, length: int, key: bytes, keep_duplicates: bool
) -> bool:
    """Whether the document that has just ended stays; it is entered in the list, or counted as left out."""
    if not length:
        documents.empty += 1
        return False
    first = documents.seen.setdefault(key, len(documents.numbers))
    if first != len(documents.numbers) and not keep_duplicates:
        documents.dropped += 1
        if len(documents.listed) < MOST_LISTED:
            documents.listed.append([source.name(number), source.name(documents.numbers[first])])
        return False
    if len(documents.numbers) == MOST_DOCUMENTS:
        fix = "use larger documents: --documents paragraph, block or file"
        raise UserError(f"{source.words}: has more than {MOST_DOCUMENTS:,} documents; {fix}")
    documents.numbers.append(number)
    documents.starts.append(documents.starts[-1] + length)
    return True


def _check_documents(source: TextSource, documents: _Documents) -> None:
    """At least two documents, since training and held-out data are divided by document."""
    if not documents.numbers:
        reason = f"; the first of {len(source.skipped)} skipped: {source.skipped[0]}" if source.skipped else ""
        fix = "for other letters than a to z use --tokens characters" if documents.empty else "name another source"
        raise UserError(f"{source.words}: has no text that can be used{reason}; {fix}")
    if len(documents.numbers) == 1:
        found = f"all its {documents.dropped + 1:,} documents are equal" if documents.dropped else "is one document"
        fix = "divide it with --documents paragraph, line or block, or name more text"
        raise UserError(f"{source.words}: {found}, and training and held-out text must differ; {fix}")
