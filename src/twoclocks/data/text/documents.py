"""Cut a stream of text into documents: files, lines, paragraphs, or blocks of a fixed length.

A cut stream has the parts of a document as strings, and None where a document ends. Where the stream's own parts end
makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twoclocks.data.text.options import TextOptions

Cut = Iterator[str | None]
ENOUGH = 1 << 16  # characters that are passed on at once


def cut(parts: Iterable[str], options: TextOptions) -> Cut:
    """The documents of one file; line and paragraphs have no white space at their ends, and are never blank."""
    if options.documents == "line":
        return _without_outer_space(_lines(parts))
    if options.documents == "paragraph":
        return _without_outer_space(_paragraphs(parts))
    if options.documents == "block":
        return _blocks(parts, options.block_length)
    return _whole(parts)


def _whole(parts: Iterable[str]) -> Cut:
    yield from parts
    yield None


def _blocks(parts: Iterable[str], length: int) -> Cut:
    """Documents of ``length`` characters; the last one has what is left."""
    left = length
    for part in parts:
        start = 0
        while len(part) - start >= left:
            yield part[start : start + left]
            yield None
            start, left = start + left, length
        if start < len(part):
            yield part[start:]
            left -= len(part) - start
    if left < length:
        yield None


def _lines(parts: Iterable[str]) -> Cut:
    for part in parts:
        for number, line in enumerate(part.split("\n")):
            if number:
                yield None
            yield line
    yield None


def _paragraphs(parts: Iterable[str]) -> Cut:
    """Documents that end at blank lines."""
    is_blank = True  # the current line, as far as it has been read
    for part in parts:
        for number, line in enumerate(part.split("\n")):
            if number:
                yield None if is_blank else "\n"
                is_blank = True
            yield line
            is_blank = is_blank and (not line or line.isspace())
    yield None


def _without_outer_space(events: Cut) -> Cut:
    """The same documents without white space at their ends, in larger parts; those of nothing else are left out."""
    waiting: list[str] = []  # not passed on yet; begins with the white space that the last part ended with
    size, enough = 0, ENOUGH
    is_begun = False
    for event in events:
        if event is not None:
            waiting.append(event)
            size += len(event)
            if size < enough:
                continue
        text = "".join(waiting)
        if not is_begun:
            text = text.lstrip()
        body = text.rstrip()
        if body:
            yield body
            is_begun = True
        if event is None:
            if is_begun:
                yield None
            waiting, size, enough, is_begun = [], 0, ENOUGH, False
        else:
            tail = text[len(body) :]
            waiting, size, enough = [tail], len(tail), max(ENOUGH, 2 * len(tail))
