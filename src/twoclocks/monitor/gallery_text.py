"""Two texts one above the other, aligned, with the characters that differ marked."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import groupby
from typing import Any

COLUMNS = 110  # characters of a line
MOST = 330  # characters that are shown of a pair
CONTEXT = 12  # tokens shown before the longest shared run
GAP = "·"  # stands where only the other text has a character
NAMES = ("sample   ", "training ")

Span = tuple[int, str, bool]  # column, characters, whether they differ


def tokens_of(text: Any) -> list[str]:
    """The words of a string, or token ids as they are written."""
    return text.split() if isinstance(text, str) else [str(token) for token in text]


def excerpts(sample: Any, original: Any) -> tuple[str, str]:
    """The two texts from a little before their longest shared run of tokens on."""
    words = [tokens_of(sample), tokens_of(original)]
    run = SequenceMatcher(None, words[0], words[1], autojunk=False).find_longest_match()
    before = min(CONTEXT, run.a, run.b)
    return " ".join(words[0][run.a - before :])[:MOST], " ".join(words[1][run.b - before :])[:MOST]


def aligned(first: str, second: str) -> tuple[str, str]:
    """Both strings with gaps, so that characters they share have the same column.

    >>> aligned("a cat sat", "a bat sat.")
    ('a cat sat·', 'a bat sat.')
    """
    above, below = [], []
    for kind, a, b, c, d in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        left, right = first[a:b], second[c:d]
        width = max(len(left), len(right)) if kind != "equal" else len(left)
        above.append(left.ljust(width, GAP))
        below.append(right.ljust(width, GAP))
    return "".join(above), "".join(below)


def marked_lines(sample: Any, original: Any) -> list[list[Span]]:
    """Lines of spans: the sample above the training text, in blocks of ``COLUMNS`` characters."""
    above, below = aligned(*excerpts(sample, original))
    lines = []
    for begin in range(0, max(len(above), 1), COLUMNS):
        block = above[begin : begin + COLUMNS], below[begin : begin + COLUMNS]
        differs = [a != b for a, b in zip(*block, strict=True)]
        for name, text in zip(NAMES, block, strict=True):
            spans: list[Span] = [(0, name, False)]
            for marked, columns in groupby(range(len(text)), key=differs.__getitem__):
                places = list(columns)
                spans.append((len(name) + places[0], text[places[0] : places[-1] + 1], marked))
            lines.append(spans)
    return lines
