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
PROJECTED = 128  # dimensions of a random projection: it changes a distance by 6% (standard deviation)
NEARLY_A_GAP = 0.6  # ratio of neighbouring distances below which they are computed exactly
ROUNDING = 5e-3  # distances below this part of the norms may be rounding errors of float32
CHANCE = 1e-3  # most rows without duplicates that may have a gap after their nearest row by chance, as a fraction


def near_duplicates(rows: Rows, below: float = 1 / 3, most: int = 16, variants: Sequence[Variant] = ()) -> Integers:
    """The group of near-duplicates of each row (N, *shape): int64 (N,), numbered from 0; most rows are alone in theirs.

    The m nearest rows of a row are its near-duplicates if they are nearer than ``below`` times the distance of the next
    row; the largest such m up to ``most`` counts. Two rows are of one group if each is among the near-duplicates of the
    other, or through a chain of such rows. Equal rows are always of one group. So are larger families, where most rows
    are alone: all neighbours of a row are much nearer than the nearest row of most other rows.

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
    below = min(below, CHANCE ** (1 / dimension(distances, int(np.prod(rows.shape[1:])))))
    gap = distances[:, :-1] < below * distances[:, 1:]
    count = np.where(gap.any(1), width - 1 - gap[:, ::-1].argmax(1), 0) if width > 1 else np.zeros(n)
    if most + 1 < n - 1:  # a family that fills the whole list of neighbours shows no gap in it
        crowded = (count == 0) & (distances[:, -1] < below * np.quantile(distances[:, 0], 0.9))
        count = np.where(crowded, width, count)
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

    Neighbours are found in float32, and wide rows are first projected at random to ``PROJECTED`` dimensions, which
    changes distances by some percent. Where this matters, next to a gap or near 0, distances are computed in float64.
    """
    n, kept = len(rows), min(k, len(rows) - 1)
    forms = [vectors(rows, rows), *(vectors(np.asarray(variant(rows)), rows) for variant in variants)]
    near, distances = np.zeros((n, kept), dtype=np.int64), np.zeros((n, kept))
    size = max(1, TILE // n)
    for begin in range(0, n, size):
        some = slice(begin, begin + size)
        squares = squared_distances(forms[0][some], forms)
        squares[torch.arange(len(squares)), torch.arange(begin, begin + len(squares))] = torch.inf
        least = squares.topk(kept, dim=1, largest=False)
        near[some], distances[some] = least.indices.numpy(), least.values.clamp(min=0).sqrt().numpy()
    norms = forms[0].double().norm(dim=1).numpy()
    unsure = (distances < ROUNDING * (norms[:, None] + norms[near])).any(1)
    unsure |= (distances[:, :-1] < NEARLY_A_GAP * distances[:, 1:]).any(1)
    for row in np.flatnonzero(unsure):
        others = rows[near[row]]
        found = [exact_distances(rows[row], form) for form in (others, *(variant(others) for variant in variants))]
        distances[row] = np.min(found, axis=0)
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(near, order, 1), np.take_along_axis(distances, order, 1)


def vectors(form: Rows, rows: Rows) -> torch.Tensor:
    """One form of all rows without the rows' mean, as float32; projected where they are wide: (N, entries)."""
    centre = rows.reshape(len(rows), -1).mean(0, dtype=np.float64)
    entries = len(centre)
    if entries <= 2 * PROJECTED:
        return torch.from_numpy((form.reshape(len(form), -1) - centre).astype(np.float32))
    direction = np.random.default_rng(0).normal(size=(entries, PROJECTED)) / np.sqrt(PROJECTED)
    projection = torch.from_numpy(direction.astype(np.float32))
    size = max(1, ENTRIES // entries)
    parts = (form[begin : begin + size].reshape(-1, entries) - centre for begin in range(0, len(form), size))
    return torch.cat([torch.from_numpy(part.astype(np.float32)) @ projection for part in parts])


def squared_distances(samples: torch.Tensor, forms: Sequence[torch.Tensor]) -> torch.Tensor:
    """Squared distances (n, N) of samples to the nearest form of each row; below 0 by rounding at most."""
    own = samples.square().sum(1)[:, None]
    found: torch.Tensor | None = None
    for form in forms:
        squares = torch.addmm(form.square().sum(1)[None], samples, form.T, alpha=-2).add_(own)
        found = squares if found is None else torch.minimum(found, squares)
    assert found is not None
    return found


def exact_distances(row: Rows, others: Rows) -> Floats:
    """Distances in float64 of a row (*shape) to others (n, *shape): (n,)."""
    difference = others.reshape(len(others), -1).astype(np.float64) - row.reshape(-1)
    found: Floats = np.sqrt(np.square(difference).sum(1))
    return found


def dimension(distances: Floats, most: int) -> float:
    """Estimate of the dimension of the space that rows fill, from the sorted distances to their neighbours (N, k).

    In m dimensions half of all rows have d_j < 2^(−1/m) d_2j, for each j. Near-duplicates make one of these ratios
    smaller, the one that spans the gap, and with it the estimate: so the largest estimate over j counts. With fewer
    than four neighbours there is no estimate, and the number of entries, ``most``, is taken.
    """
    if distances.shape[1] < 4:
        return float(most)
    found = [1.0]
    for j in (2, 4, 8):
        if 2 * j <= distances.shape[1]:
            near, far = distances[:, j - 1], distances[:, 2 * j - 1]
            ratio = float(np.median(near[far > 0] / far[far > 0])) if far.any() else 0.0
            found.append(np.log(2) / -np.log(min(max(ratio, 1e-300), 1 - 1e-12)))
    return max(found)
