"""Texts: the longest run of tokens that a sample shares with a training text, and copies by its length."""

from __future__ import annotations

from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING

from twoclocks.core.lazy import torch
from twoclocks.core.suffix_array import SuffixArray, Tokens

if TYPE_CHECKING:
    from torch import Tensor


class RunCopies:
    """Texts whose copies are found by a run: a sample is one if ``run`` of its tokens in a row stand in a text.

    >>> texts = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    >>> RunCopies(texts, run=3).found(torch.tensor([[0, 2, 3, 4], [3, 4, 5, 6]]))
    tensor([ True, False])
    """

    def __init__(self, texts: Tensor, run: int) -> None:
        self.texts = texts.flatten(1)
        self.run = min(run, self.texts.shape[1])  # a whole text is a copy, however short

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def index(self) -> SuffixArray:
        return SuffixArray(list(self.texts.cpu().numpy()))

    def lengths(self, rows: Tensor) -> Tensor:
        """The longest run of each row (n, length) in tokens: int64 (n,)."""
        found = self.index.longest_runs(list(rows.flatten(1).cpu().numpy())).lengths
        return torch.from_numpy(found).to(rows.device)

    def among(self, lengths: Tensor) -> Tensor:
        """Which rows are copies, of those whose longest runs are known: bool (n,)."""
        return lengths >= self.run

    def found(self, rows: Tensor) -> Tensor:
        """Which rows (n, length) are copies: bool (n,)."""
        return self.among(self.lengths(rows))


def common_runs(text: Tokens, other: Tokens, least: int) -> list[tuple[int, int, int]]:
    """Runs of ``least`` tokens or more that both texts have, in order: start in each text, and length.

    The longest is among them; the others are the longest before and behind it.

    >>> import numpy as np
    >>> common_runs(np.array([1, 2, 3, 9, 4, 5]), np.array([0, 1, 2, 3, 4, 5]), least=2)
    [(0, 1, 3), (4, 4, 2)]
    """
    blocks = SequenceMatcher(None, text.tolist(), other.tolist(), autojunk=False).get_matching_blocks()
    return [(block.a, block.b, block.size) for block in blocks if block.size >= least]
