"""Omitted contents: contents of a piece, such as a group, that no training sample has.

A model that only recombines pieces of its training set never generates them; one that learned the rule does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import SettingError
from twoclocks.core.lazy import torch
from twoclocks.core.rows import row_keys
from twoclocks.core.seeds import numpy_stream
from twoclocks.rules.base import Array, Rule

if TYPE_CHECKING:
    from torch import Tensor

RAREST = 1e-3  # smallest share of valid arrays that may be left: they are drawn by rejection
BLOCK = 64  # rows from whose pieces the omitted contents are taken, at a time


def room_without(rule: Rule, omit: int) -> int:
    """Number of valid arrays without any of ``omit`` omitted contents; SettingError where none can be omitted.

    The pieces must be independent, so that every piece may have any of the other contents.
    """
    contents, pieces = independent_pieces(rule, omit)
    most = math.floor(contents * (1 - RAREST ** (1 / pieces)))
    if not 0 <= omit <= most:
        fix = f"use 0 to {most}" if most else "use 0, or a rule with more contents"
        why = f"{pieces} pieces have {contents} valid contents each, and {RAREST:.1%} of all samples must be left"
        raise SettingError("omit", omit, f"{why}; {fix}")
    return int((contents - omit) ** pieces)


def independent_pieces(rule: Rule, omit: int) -> tuple[int, int]:
    """Number of valid contents of a piece, and of pieces; SettingError unless the valid set is all combinations."""
    counts = rule.part_counts()
    kinds = ", ".join(counts)
    for kind, contents in counts.items() if len(counts) == 1 else ():
        _, pieces, entries = rule.parts(rule.empty(1))[kind].shape
        whole = pieces * entries == math.prod(rule.shape)
        if whole and pieces > 1 and rule.support() == rule.count() == contents**pieces:
            return contents, pieces
    fix = "use a rule with several independent pieces of one kind, such as parity, or 0"
    raise SettingError("omit", omit, f"the pieces of this rule ({kinds}) are not independent; {fix}")


def omitted_contents(rule: Rule, omit: int, seed: int) -> Tensor:
    """The contents (omit, entries) of a piece that are omitted, drawn from all valid ones."""
    room_without(rule, omit)
    rng = numpy_stream(seed, "omitted contents")
    found = pieces_of(rule, rule.draw(0, rng))
    while len(found) < omit:
        drawn = np.concatenate([found, pieces_of(rule, rule.draw(BLOCK, rng))])
        _, first = np.unique(row_keys(drawn, rule.symbols), return_index=True)
        found = drawn[np.sort(first)]
    return torch.from_numpy(found[:omit].astype(np.int64))


def pieces_of(rule: Rule, rows: Array) -> npt.NDArray[Any]:
    """The pieces (n · pieces, entries) of rows (n, *shape) of a rule with one kind of pieces."""
    (pieces,) = rule.parts(torch.from_numpy(rows)).values()
    return pieces.flatten(0, 1).numpy()


def lacks(rule: Rule, rows: Array, contents: Tensor) -> npt.NDArray[np.bool_]:
    """Which rows (n, *shape) have none of the contents in any piece: bool (n,)."""
    found = np.isin(row_keys(pieces_of(rule, rows), rule.symbols), row_keys(contents, rule.symbols))
    return np.asarray(~found.reshape(len(rows), -1).any(axis=1))
