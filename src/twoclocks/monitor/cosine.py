"""The most similar training row by cosine: products in float32 where the samples are, candidates again in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.arrays import Floats
from twoclocks.core.lazy import torch

Rows = npt.NDArray[Any]  # (n, entries)
Indices = npt.NDArray[np.int64]
Form = Callable[[Indices], Rows]  # the training rows of these indices, in one of their forms: (n, entries)
Scale = Callable[[Rows], Floats]  # rows (n, entries) to vectors of length 1, or 0 where a row has no direction
PIECE = 1 << 15  # most training rows compared at once
TILE = 1 << 24  # most entries of training rows, and most cosines, held at once
KEPT = 1 << 28  # most entries of scaled training rows that are held between searches (1 GiB)
PRECISION = {"highest": 0.0, "high": 2.0**-9, "medium": 2.0**-6}  # torch's setting: error of a cosine from short floats


def unit(rows: Rows) -> Floats:
    """Rows divided by their length, in float64; rows of zeros stay zeros."""
    exact = rows.astype(np.float64)
    length = np.linalg.norm(exact, axis=1, keepdims=True)
    return np.asarray(np.divide(exact, length, out=np.zeros_like(exact), where=length > 0))


class CosineSearch:
    """Training rows, in one or more forms, among which the most similar one to each sample is found."""

    def __init__(self, forms: Sequence[Form], number: int, entries: int, scale: Scale = unit) -> None:
        self.entries, self.scale = entries, scale
        self.size = min(number, PIECE, max(1, TILE // entries))
        indices = [np.arange(first, min(first + self.size, number)) for first in range(0, number, self.size)]
        self.parts = [(form, rows) for form in forms for rows in indices]
        self.kept = [self.scaled(*part) for part in self.parts[: max(1, KEPT // (self.size * entries))]]

    def scaled(self, form: Form, rows: Indices) -> Any:
        return torch.from_numpy(self.scale(form(rows)).astype(np.float32))

    def search(self, samples: Rows, device: str = "cpu") -> tuple[Indices, Floats]:
        """The row with the largest cosine (the first of equal ones) and the cosine, for samples (n, entries).

        Equal to a search of all pairs in float64: each row whose float32 cosine could be the largest, given the error
        of float32, is compared again.
        """
        rows, cosines = np.full(len(samples), -1, dtype=np.int64), np.full(len(samples), -np.inf)
        step = TILE // self.size
        for begin in range(0, len(samples), step):
            here = slice(begin, begin + step)
            rows[here], cosines[here] = self.search_at_once(self.scale(samples[here]), device)
        return rows, cosines

    def search_at_once(self, samples: Floats, device: str) -> tuple[Indices, Floats]:
        rows, cosines = np.full(len(samples), -1, dtype=np.int64), np.full(len(samples), -np.inf)
        ours = torch.from_numpy(samples.astype(np.float32)).to(device)
        error = (self.entries + 16) * 2.0**-24 + product_error()  # of a cosine; both vectors have length 1
        for place, (form, indices) in enumerate(self.parts):
            theirs = self.kept[place] if place < len(self.kept) else self.scaled(form, indices)
            with torch.autocast(torch.device(device).type, enabled=False):  # a training loop may have it on
                product = ours @ theirs.to(device).T
            least = torch.from_numpy(cosines - error).to(product)
            least = torch.maximum(least, product.amax(1) - 2 * error)
            for i, j in pieces((product >= least[:, None]).nonzero().cpu().numpy(), max(1, TILE // self.entries)):
                exact = np.einsum("ij,ij->i", samples[i], self.scale(form(indices[j])))
                keep_best(rows, cosines, i, indices[j], exact)
        return rows, cosines


def product_error() -> float:
    """Largest error of a cosine from a matrix product in short floats (TF32, bfloat16), if torch is set to them."""
    try:
        return PRECISION[torch.get_float32_matmul_precision()]
    except RuntimeError:  # torch has two ways to set it, and does not answer if both were used
        return max(PRECISION.values())


def pieces(pairs: Indices, size: int) -> Iterator[tuple[Indices, Indices]]:
    """Pairs (n, 2) in chunks of a bounded size, each as two arrays."""
    return ((pairs[i : i + size, 0], pairs[i : i + size, 1]) for i in range(0, len(pairs), size))


def keep_best(rows: Indices, cosines: Floats, samples: Indices, found: Indices, values: Floats) -> None:
    """Replace a sample's row and cosine, in place, where one of the found rows has a larger cosine."""
    order = np.lexsort((found, -values, samples))
    which, first = np.unique(samples[order], return_index=True)
    best = order[first]
    better = values[best] > cosines[which]
    rows[which[better]], cosines[which[better]] = found[best][better], values[best][better]
