"""A figure that changes over training: one drawing per checkpoint, which the page shows with a slider."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from twoclocks.core.svg import svg_width
from twoclocks.core.theme import themed_svg

_PIECES = re.compile(r"(<[^>]*>)")
_NAMES = re.compile(r'(id="|href="#|url\(#)film-')


@dataclass(frozen=True)
class Film:
    """Drawings (SVG) with the step of each; they follow the page's theme like every other figure."""

    steps: tuple[int, ...]
    drawings: tuple[str, ...]

    @property
    def last(self) -> str:
        """What a page without a script shows."""
        return self.drawings[-1]

    @property
    def width(self) -> int:
        """In pixels."""
        return svg_width(self.last)

    def named(self, salt: str) -> Film:
        """The same film with other ids, which keep several films of a page apart."""
        return Film(self.steps, tuple(_NAMES.sub(rf"\g<1>{salt}-", one) for one in self.drawings))

    def packed(self) -> str:
        """Steps and drawings, compressed, in base64: the page's script unpacks them when somebody asks for the film."""
        fixed, changing = common_pieces(self.drawings)
        document = {"steps": self.steps, "fixed": fixed, "changing": changing}
        plain = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        return base64.b64encode(zlib.compress(plain.encode(), 9)).decode()


def shoot(figure: Any, steps: Iterable[int], show: Callable[[int], None]) -> Film:
    """One drawing per step; ``show(index)`` updates the figure, whose layout stays that of the first drawing."""
    drawings, taken = [], []
    for index, step in enumerate(steps):
        show(index)
        drawings.append(themed_svg(figure, "film", tight=False, decimals=1, colours=48))
        figure.set_layout_engine("none")
        taken.append(int(step))
    return Film(tuple(taken), tuple(drawings))


def common_pieces(drawings: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """What all drawings share, and what each has between two neighbouring pieces of it.

    >>> common_pieces(["<a>1</a>", "<a>2</a>"])
    (['<a>', '</a>'], [['1'], ['2']])
    """
    split = [_PIECES.split(one) for one in drawings]
    if len({len(pieces) for pieces in split}) > 1:  # a drawing has something that another has not
        return ["", ""], [[one] for one in drawings]
    fixed = [""]
    changing: list[list[str]] = [[] for _ in drawings]
    for pieces in zip(*split, strict=True):
        if len(set(pieces)) == 1:
            fixed[-1] += pieces[0]
            continue
        fixed.append("")
        for own, piece in zip(changing, pieces, strict=True):
            own.append(piece)
    return fixed, changing
