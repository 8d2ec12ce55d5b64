"""Two texts one above the other, aligned, with the tokens that differ marked."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import groupby
from typing import Any

from twoclocks.core.text import visible

COLUMNS = 110  # characters of a line
MOST = 60  # tokens that are shown of the longest shared run
CONTEXT = 6  # tokens shown before and behind it
GAP = "·"  # stands where only the other text has a character
NAMES = ("sample   ", "training ")

Span = tuple[int, str, bool]  # column, characters, whether their tokens differ


def tokens_of(text: Any) -> list[str]:
    """The words of a string, or token ids as they are written."""
    return [visible(token) for token in (text.split() if isinstance(text, str) else map(str, text))]


def excerpts(sample: Any, original: Any) -> tuple[list[str], list[str]]:
    """The tokens of both texts around their longest shared run."""
    words = tokens_of(sample), tokens_of(original)
    run = SequenceMatcher(None, words[0], words[1], autojunk=False).find_longest_match()
    before = min(CONTEXT, max(run.a, run.b))
    return tuple(  # type: ignore[return-value]
        text[max(start - before, 0) : start + min(run.size, MOST) + CONTEXT]
        for text, start in zip(words, (run.a, run.b), strict=True)
    )


def aligned(first: list[str], second: list[str]) -> tuple[str, str, list[bool]]:
    """Both texts as strings with gaps, so that tokens they share have the same columns; which columns differ.

    >>> above, below, differs = aligned("a cat sat".split(), "a small cat sat".split())
    >>> above, below, differs.index(True), sum(differs)
    ('a ····· cat sat', 'a small cat sat', 2, 5)
    """
    above, below, differs = [], [], []
    for kind, a, b, c, d in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        left, right = " ".join(first[a:b]), " ".join(second[c:d])
        width = max(len(left), len(right))
        above.append(left.ljust(width, GAP))
        below.append(right.ljust(width, GAP))
        differs += [kind != "equal"] * width + [False]
    return " ".join(above), " ".join(below), differs[:-1]


def marked_lines(sample: Any, original: Any) -> list[list[Span]]:
    """Lines of spans: the sample above the training text, in blocks of ``COLUMNS`` characters."""
    above, below, differs = aligned(*excerpts(sample, original))
    lines = []
    for begin in range(0, max(len(above), 1), COLUMNS):
        block = slice(begin, begin + COLUMNS)
        for name, text in zip(NAMES, (above[block], below[block]), strict=True):
            spans: list[Span] = [(0, name, False)]
            for marked, columns in groupby(range(len(text)), key=differs[block].__getitem__):
                places = list(columns)
                spans.append((len(name) + places[0], text[places[0] : places[-1] + 1], marked))
            lines.append(spans)
    return lines
