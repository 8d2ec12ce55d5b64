"""Groups of near-duplicate training rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from twoclocks.core.arrays import Floats
from twoclocks.core.errors import SettingError
from twoclocks.core.lazy import torch
from twoclocks.monitor.nearest import Integers, Rows, Variant

TILE = 1 << 25  # squared distances in memory at once
ENTRIES = 1 << 24  # entries of rows that are converted at once
PAIRS = 1 << 12  # pairs whose distances are computed at once
ROUNDING = 5e-3  # distances below this part of the norms may be rounding errors of float32
CHANCE = 1e-3  # most rows without duplicates that may have a gap after their nearest row by chance, as a fraction


def near_duplicates(rows: Rows, below: float = 1 / 3, most: int = 16, variants: Sequence[Variant] = ()) -> Integers:
    """The group of near-duplicates of each row (N, *shape): int64 (N,), numbered from 0; most rows are alone in theirs.

    The m nearest rows of a row are its near-duplicates if they are nearer than ``below`` times the distance of the next
    row; the largest such m up to ``most`` counts. Two rows are of one group if each is among the near-duplicates of the
    other, or through a chain of such rows. Equal rows are always of one group.

    In few dimensions such gaps occur by chance: with a probability of ``below`` to the power of the dimension. So
    ``below`` is lowered where the dimension of the rows, estimated from their distances, would let this happen for more
    than ``CHANCE`` of the rows: below dimension 6.3 for 1/3.

    >>> near_duplicates(np.array([[0, 0, 9], [7, 0, 0], [0, 0, 9], [0, 8, 0]])).tolist()
    [0, 1, 0, 2]
    """
    if not 0 < below <= 1:
        raise SettingError("below", below, "use a number above 0, at most 1")
    if most < 1:
        raise SettingError("most", most, "use an integer of at least 1")
    near, distances = other_rows(rows, most + 1, variants)
    n, width = near.shape
    below = min(below, CHANCE ** (1 / dimension(distances)))
    gap = distances[:, :-1] < below * distances[:, 1:]
    count = np.where(gap.any(1), width - 1 - gap[:, ::-1].argmax(1), 0) if width > 1 else np.zeros(n)
    ahead = np.arange(width) < count[:, None]
    listed, equal = (
        coo_array((np.ones(some.sum()), (some.nonzero()[0], near[some])), shape=(n, n)).tocsr()
        for some in (ahead, distances == 0)
    )
    label = connected_components(listed.multiply(listed.T) + equal, directed=False)[1]
    _, first, place = np.unique(label, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[place.reshape(-1)].astype(np.int64)


def other_rows(rows: Rows, k: int, variants: Sequence[Variant] = ()) -> tuple[Integers, Floats]:
    """For each row its k nearest other rows, or all if there are fewer, and their distances: (N, k).

    Products in float32 are enough here, and much faster than the exact search (``nearest``). Distances that they cannot
    tell from 0 are computed again in float64.
    """
    n, kept = len(rows), min(k, len(rows) - 1)
    centre = rows.reshape(n, -1).mean(0, dtype=np.float64)
    centred = plain_rows(rows, centre)
    near, distances = np.zeros((n, kept), dtype=np.int64), np.zeros((n, kept))
    size = max(1, TILE // n)
    for begin in range(0, n, size):
        some = slice(begin, begin + size)
        squares = squared_distances(centred[some], rows, centre, variants)
        squares[torch.arange(len(squares)), torch.arange(begin, begin + len(squares))] = torch.inf
        least = squares.topk(kept, dim=1, largest=False)
        near[some], distances[some] = least.indices.numpy(), least.values.clamp(min=0).sqrt().numpy()
    norms = centred.double().norm(dim=1).numpy()
    unsure = distances < ROUNDING * (norms[:, None] + norms[near])
    of = np.nonzero(unsure)[0]
    for begin in range(0, len(of), PAIRS):
        some = slice(begin, begin + PAIRS)
        first, second = rows[of[some]], rows[near[unsure][some]]
        forms = [second, *(variant(second) for variant in variants)]
        place = np.flatnonzero(unsure)[some]
        distances.flat[place] = np.min([exact_distances(first, form) for form in forms], axis=0)
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(near, order, 1), np.take_along_axis(distances, order, 1)


def plain_rows(rows: Rows, centre: Floats) -> torch.Tensor:
    """Rows (n, *shape) without their mean, as float32 (n, entries)."""
    return torch.from_numpy((rows.reshape(len(rows), -1) - centre).astype(np.float32))


def squared_distances(samples: torch.Tensor, rows: Rows, centre: Floats, variants: Sequence[Variant]) -> torch.Tensor:
    """Squared distances (n, N) of centred samples to the nearest form of each row; below 0 by rounding at most."""
    found = torch.full((len(samples), len(rows)), torch.inf)
    own = samples.square().sum(1)[:, None]
    size = max(1, ENTRIES // samples.shape[1])
    for begin in range(0, len(rows), size):
        some = slice(begin, begin + size)
        for form in (rows[some], *(variant(rows[some]) for variant in variants)):
            other = plain_rows(np.asarray(form), centre)
            squares = torch.addmm(other.square().sum(1)[None], samples, other.T, alpha=-2).add_(own)
            found[:, some] = torch.minimum(found[:, some], squares)
    return found


def exact_distances(first: Rows, second: Rows) -> Floats:
    """Distances in float64 of pairs of rows (n, *shape): (n,)."""
    difference = first.reshape(len(first), -1).astype(np.float64) - second.reshape(len(second), -1)
    found: Floats = np.sqrt(np.square(difference).sum(1))
    return found


def dimension(distances: Floats) -> float:
    """Estimate of the dimension of the space that rows fill, from the sorted distances to their neighbours (N, k).

    In m dimensions half of all rows have d_j < 2^(−1/m) d_2j, for each j. Near-duplicates make one of these ratios
    smaller, the one that spans the gap, and with it the estimate: so the largest estimate over j counts.
    """
    found = [1.0]
    for j in (2, 4, 8):
        if 2 * j <= distances.shape[1]:
            near, far = distances[:, j - 1], distances[:, 2 * j - 1]
            ratio = float(np.median(near[far > 0] / far[far > 0])) if far.any() else 0.0
            found.append(np.log(2) / -np.log(min(max(ratio, 1e-300), 1 - 1e-12)))
    return max(found)
