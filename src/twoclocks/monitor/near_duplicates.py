"""Groups of near-duplicate training rows."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from twoclocks.core.arrays import Floats
from twoclocks.core.errors import SettingError
from twoclocks.monitor.nearest import Integers, Nearest, Rows

CHANCE = 1e-3  # most rows without duplicates that may have a gap after their nearest row by chance, as a fraction


def near_duplicates(rows: Rows, below: float = 1 / 3, most: int = 16) -> Integers:
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
    near, distances = other_rows(rows, most + 1)
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


def other_rows(rows: Rows, k: int) -> tuple[Integers, Floats]:
    """For each row its k nearest other rows, or all if there are fewer, and their distances: (N, k)."""
    n = len(rows)
    found = Nearest(rows).search(rows, k=min(k + 1, n))
    other = found.rows != np.arange(n)[:, None]
    other[other.all(1), -1] = False  # so many equal rows that the row itself is not among the nearest
    shape = n, found.rows.shape[1] - 1
    return found.rows[other].reshape(shape), found.distances[other].reshape(shape)


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
