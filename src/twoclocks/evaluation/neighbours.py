"""Exact nearest training neighbour in Hamming distance, by matrix product, in tiles of bounded memory.

Products are integers of at most ``EXACT`` in magnitude, and so are all partial sums: half precision holds each of
them exactly, whatever the order and the type in which a device adds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twoclocks.core.lazy import torch
from twoclocks.evaluation.copies import checked_rows, flat_rows, pieces

if TYPE_CHECKING:
    from torch import Tensor

EXACT = 2048  # float16 holds all integers up to here
INDICATORS = 1 << 24  # entries of one factor of a product
SIDES = {"cpu": 1 << 10, "cuda": 1 << 13}  # rows of a factor: a product fits into the CPU's cache; 128 MiB on a GPU


class Neighbours:
    """A training set in its smallest form on its device, with which samples are compared tile by tile.

    >>> Neighbours(torch.tensor([[0, 1, 1], [1, 0, 1]]), symbols=2).distance(torch.tensor([[1, 0, 1], [0, 1, 0]]))
    tensor([0, 1])
    """

    def __init__(self, train: Tensor, symbols: int) -> None:
        rows = checked_rows(train, symbols)
        if not len(rows):
            raise ValueError("a training set without rows has no nearest one")
        self.symbols, self.length = symbols, rows.shape[1]
        self.rows = torch.cat([self.codes(piece) for piece in pieces(rows)])
        cuda = rows.device.type == "cuda"
        self.dtype = torch.float16 if cuda else torch.float32
        columns = 1 if self.binary else symbols  # of an entry, in a factor
        self.side = max(1, min(SIDES["cuda" if cuda else "cpu"], INDICATORS // columns))
        self.entries = max(1, min(EXACT, INDICATORS // (self.side * columns)))

    @property
    def binary(self) -> bool:
        return self.symbols <= 2

    def distance(self, rows: Tensor) -> Tensor:
        """Smallest number of entries in which each row (n, …) differs from a training row: int64 (n,).

        A symbol that does not exist differs from every symbol.
        """
        rows = flat_rows(rows)
        if rows.shape[1] != self.length:
            raise ValueError(f"rows of {rows.shape[1]} entries, the training set has {self.length}")
        sides = min(self.side, max(1, len(rows))), min(self.side, len(self.rows))
        product = torch.empty(sides[0] * sides[1], dtype=self.dtype, device=rows.device)
        return torch.cat([self.nearest(self.codes(piece), product) for piece in rows.split(self.side)])

    def nearest(self, rows: Tensor, product: Tensor) -> Tensor:
        """``distance`` of the rows (as codes) of one tile; ``product`` is memory that is written over."""
        best = torch.full((len(rows),), -self.length, dtype=torch.int32, device=rows.device)
        for train in self.rows.split(self.side):
            best = torch.maximum(best, self.agreement(rows, train, product).amax(dim=1).int())
        if self.binary:  # so far equal entries less different ones, among those that are symbols
            best = (best + rows.abs().sum(dim=1)) // 2
        return self.length - best.long()

    def agreement(self, rows: Tensor, train: Tensor, product: Tensor) -> Tensor:
        """How well each row agrees with each training row (rows, train), as a product of their indicators."""
        tile = product[: len(rows) * len(train)].view(len(rows), len(train))
        if self.length <= self.entries:
            return torch.mm(self.indicator(rows), self.indicator(train).T, out=tile)
        total = torch.zeros_like(tile, dtype=torch.int32)
        for left, right in zip(rows.split(self.entries, dim=1), train.split(self.entries, dim=1), strict=True):
            total += torch.mm(self.indicator(left), self.indicator(right).T, out=tile).int()
        return total

    def indicator(self, codes: Tensor) -> Tensor:
        """Codes as a factor: bits (n, entries), other symbols one-hot (n, entries·symbols).

        The product of two signs says whether bits are equal, in half the columns that one-hot bits would take.
        """
        if self.binary:
            result = codes.to(self.dtype)
        else:
            known = torch.arange(self.symbols, dtype=codes.dtype, device=codes.device)
            result = (codes[:, :, None] == known).flatten(1).to(self.dtype)
        # Tensor cores read eight columns at a time.
        return torch.nn.functional.pad(result, (0, -result.shape[1] % 8)) if codes.is_cuda else result

    def codes(self, rows: Tensor) -> Tensor:
        """Rows in the smallest type: bits as −1 and +1, other symbols as they are; what is no symbol as 0 or −1."""
        if self.binary:
            return (rows == 1).to(torch.int8) - (rows == 0).to(torch.int8)
        smallest = next(
            kind for kind in (torch.int8, torch.int16, torch.int32) if self.symbols <= torch.iinfo(kind).max
        )
        return torch.where((rows >= 0) & (rows < self.symbols), rows, -1).to(smallest)


def nearest_distance(samples: Tensor, train: Tensor) -> Tensor:
    """Smallest number of differing entries (n,) between each sample (n, *shape) and the training rows (N, *shape)."""
    return Neighbours(train, symbols=max(2, 1 + int(train.max()))).distance(samples)
