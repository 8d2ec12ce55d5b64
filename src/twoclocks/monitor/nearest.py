"""Exact nearest training rows in Euclidean distance, by matrix products on the samples' device, in bounded memory.

A first pass in bfloat16 gives a bound of every distance (``closeness``). The distances to the rows that seem nearest
are computed in float64 from the original values, and then those of every other row that may be as near according to its
bound. Where these are too many (rows differ by less than bfloat16 can tell), a second pass repeats this with bounds in
float64. So the result is that of computing all distances in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.arrays import Floats
from twoclocks.core.errors import UserError
from twoclocks.core.lazy import torch
from twoclocks.monitor import closeness as bounds
from twoclocks.monitor.closeness import Frame

Rows = npt.NDArray[Any]  # (n, *shape): integers or floats
Integers = npt.NDArray[np.int64]
Variant = Callable[[Rows], Rows]  # (n, *shape) -> (n, *shape)

TILES = {"cpu": 1 << 25, "cuda": 1 << 28}  # bounds in memory at once: samples × training rows
PRODUCTS = {"cpu": 1 << 20, "cuda": 1 << 26}  # products computed at once
SLICE = 1 << 20  # bounds searched at once
PAIRS = 1 << 17  # entries of pairs whose distances are computed at once: they stay in the processor's cache
CROWD = 64  # the second pass begins where more than this many rows, and 1/CROWD of them, are left for a sample


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of each sample, of the k nearest groups: distance and index; inf and −1 where there is none."""

    distances: Floats  # (n, k)
    rows: Integers  # (n, k)
    second_pass: int = 0  # samples for which bfloat16 was too coarse


@dataclass(frozen=True)
class Place:
    """The training rows on one device."""

    rows: torch.Tensor  # (N, D) in their own type
    coarse: torch.Tensor  # (N, columns) in bfloat16: the right factor of ``closeness``
    frame: Frame
    groups: torch.Tensor | None  # (N,); None if each row is its own group

    def to(self, device: torch.device) -> Place:
        groups = None if self.groups is None else self.groups.to(device)
        return Place(self.rows.to(device), self.coarse.to(device), self.frame.to(device), groups)


class Nearest:
    """Training rows on a device, among which the nearest rows of different groups are found for each sample.

    ``rows`` (N, *shape) are integers or floats. Rows of one group (``groups``: (N,) integers) count as one neighbour.
    ``variants`` are functions of arrays (n, *shape), such as a mirror image: a row is compared in its own form and in
    each variant, and the nearest form counts. Variants are formed tile by tile on the CPU, at each search, and never
    stored. The rows are kept as they are (not copied) and once more in bfloat16. A sample with an entry that is NaN or
    infinite has no neighbours. Of equal distances, the one to the row of the lowest index comes first.

    >>> nearest = Nearest(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.1]]), groups=np.array([0, 1, 1]))
    >>> found = nearest.search(np.array([[3.0, 4.0]]))
    >>> found.distances.tolist(), found.rows.tolist()
    ([[0.0, 5.0]], [[1, 0]])
    """

    def __init__(self, rows: Rows, groups: Integers | None = None, variants: Sequence[Variant] = ()) -> None:
        self._array = np.asarray(rows)
        if self._array.ndim < 2 or not self._array.size:
            raise UserError(f"rows: shape {self._array.shape} is not allowed; give at least one row, as (n, entries)")
        self.shape, self.variants = self._array.shape[1:], tuple(variants)
        flat = bounds.plain_tensor(self._array)
        if flat.is_floating_point() and not all(bool(part.isfinite().all()) for part in flat.split(1 << 12)):
            raise UserError("rows: a value is NaN or infinite; leave such rows out")
        self.group_count, of_row = self._checked_groups(groups)
        frame = Frame.of(flat)
        self._places = {"cpu": Place(flat, bounds.row_factor_in_tiles(flat, frame), frame, of_row)}

    def _checked_groups(self, groups: Integers | None) -> tuple[int, torch.Tensor | None]:
        """The number of groups, and the group of each row (None if each row is its own)."""
        n = len(self._array)
        if groups is None:
            return n, None
        if np.shape(groups) != (n,):
            raise UserError(f"groups: shape {np.shape(groups)} is not allowed; give one integer per row, ({n},)")
        unique, place = np.unique(groups, return_inverse=True)
        return len(unique), None if len(unique) == n else torch.from_numpy(place.reshape(-1).astype(np.int64))

    @property
    def prepared_bytes(self) -> int:
        """Memory on the CPU beyond the rows themselves."""
        coarse = self._places["cpu"].coarse
        return int(coarse.numel() * coarse.element_size())

    def search(self, samples: Any, k: int = 2) -> Neighbours:
        """The nearest row of each of the ``k`` nearest groups, for samples (n, *shape): an array, or a tensor.

        CUDA tensors are searched on their device, to which the rows are moved at the first search.
        """
        if k < 1:
            raise UserError(f"k: {k} is not allowed; use an integer of at least 1")
        if hasattr(samples, "detach"):
            given = samples.detach()
        else:
            given = bounds.plain_tensor(np.asarray(samples)).reshape(np.shape(samples))
        entries = math.prod(self.shape)
        if math.prod(given.shape[1:]) != entries:
            raise UserError(f"samples: shape {tuple(given.shape)}; the training rows have the shape {self.shape}")
        flat = given.reshape(len(given), entries)
        flat = flat if flat.is_cuda else flat.cpu()
        place = self._place(flat.device)
        found = Neighbours(np.full((len(flat), k), np.inf), np.full((len(flat), k), -1, dtype=np.int64))
        finite = torch.cat([part.double().isfinite().all(1).cpu() for part in flat.split(1 << 12)] or [torch.zeros(0)])
        chosen = finite.nonzero()[:, 0].numpy()
        left = [self._search_tile(place, flat, part, found, False) for part in self._parts(place, chosen)]
        again = np.concatenate([np.zeros(0, dtype=np.int64), *left])
        for part in self._parts(place, again):
            self._search_tile(place, flat, part, found, True)
        return Neighbours(found.distances, found.rows, len(again))

    def _place(self, device: torch.device) -> Place:
        if str(device) not in self._places:
            self._places[str(device)] = self._places["cpu"].to(device)
        return self._places[str(device)]

    def _parts(self, place: Place, samples: Integers) -> list[Integers]:
        """Indices of samples in parts of about equal size, so that the bounds of a part fit into a tile."""
        size = max(1, TILES[place.rows.device.type] // len(place.rows))
        return np.array_split(samples, -(-len(samples) // size)) if len(samples) else []

    def _search_tile(
        self, place: Place, flat: torch.Tensor, part: Integers, found: Neighbours, precise: bool
    ) -> Integers:
        """Write the neighbours of some samples into ``found``; return those whose bounds leave too many rows."""
        samples = flat[torch.from_numpy(part).to(flat.device)].double()
        kind = torch.float64 if precise else torch.bfloat16
        factor, norms = bounds.sample_factor(samples, place.frame, kind)
        usable = (norms <= bounds.FARTHEST) | precise
        close = self._closeness(place, factor)
        crowded = []
        k = min(found.rows.shape[1], self.group_count)
        size = max(1, SLICE // len(place.rows))
        for begin in range(0, len(part), size):
            some = slice(begin, begin + size)
            nearest = self._closest(place, close[some], k)  # (n, k) rows of k different groups
            own = torch.arange(len(nearest), device=close.device)
            first = self._squares(place, samples[some], own.repeat_interleave(k), nearest.reshape(-1)).view(-1, k)
            limit = self._limit(place, norms[some], first.amax(1))
            near = close[some] >= bounds.least_closeness(limit, close.dtype)[:, None]
            many = ~usable[some] | ((near.sum(1) > max(CROWD, len(place.rows) // CROWD)) & (not precise))
            which, row = (near & ~many[:, None]).nonzero().unbind(1)
            squares = self._squares(place, samples[some], which, row)
            self._write(place, part[some], found, which, row, squares)
            crowded.append(part[some][many.cpu().numpy()])
        return np.concatenate(crowded)

    def _closeness(self, place: Place, samples: torch.Tensor) -> torch.Tensor:
        """Upper bounds (n, N) of the closeness, each the largest over the forms of a row."""
        kind, device = samples.dtype, place.rows.device
        close = torch.empty(len(samples), len(place.rows), dtype=bounds.closeness_dtype(device, kind), device=device)
        size = self._tile_rows(place, len(samples), kind)
        for begin in range(0, len(place.rows), size):
            some = slice(begin, begin + size)
            stored = kind == torch.bfloat16
            rows = place.coarse[some] if stored else bounds.row_factor(place.rows[some], place.frame, kind)
            close[:, some] = bounds.closeness(samples, rows)
            for variant in self._variants(self._array[some], device):
                form = bounds.closeness(samples, bounds.row_factor(variant, place.frame, kind))
                close[:, some] = torch.maximum(close[:, some], form)
        return close

    def _tile_rows(self, place: Place, samples: int, kind: torch.dtype) -> int:
        """Rows that are multiplied at once: their products, and what is converted of them, fit into tiles."""
        size = max(1 << 8, PRODUCTS[place.rows.device.type] // samples)
        converted = bool(self.variants) or kind == torch.float64
        return min(size, bounds.tile_rows(place.rows.shape[1])) if converted else size

    def _variants(self, rows: Rows, device: torch.device) -> Iterator[torch.Tensor]:
        """Each variant of rows (n, *shape), as a tensor (n, D)."""
        for variant in self.variants:
            formed = np.asarray(variant(rows))
            if formed.shape != rows.shape:
                name = getattr(variant, "__qualname__", repr(variant))
                raise UserError(f"variants: {name} made the shape {formed.shape} of {rows.shape}; keep the shape")
            yield bounds.plain_tensor(formed).to(device)

    def _closest(self, place: Place, close: torch.Tensor, k: int) -> torch.Tensor:
        """For each sample the k rows of different groups with the largest closeness: (n, k)."""
        if place.groups is None:
            return close.topk(k, dim=1).indices
        close, found = close.clone(), []
        for _ in range(k):
            found.append(close.argmax(1))
            close[place.groups == place.groups[found[-1]][:, None]] = -torch.inf
        return torch.stack(found, dim=1)

    def _limit(self, place: Place, norms: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
        """The closeness below which a row is farther than the squared distance, whatever rounding did: (n,)."""
        slack = bounds.relative_error(place.rows.shape[1])
        return (norms.square() * (1 - slack) - squares * place.frame.scale**2 * (1 + slack)) / 2

    def _squares(self, place: Place, samples: torch.Tensor, which: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        """Squared distances in float64 of pairs of a sample and a row, each the smallest over the row's forms."""
        found = [torch.zeros(0, dtype=torch.float64, device=samples.device)]
        size = max(1, PAIRS // samples.shape[1])
        for mine, theirs in zip(which.split(size), row.split(size), strict=True):
            sample = samples[mine]
            best = (place.rows[theirs].double() - sample).square_().sum(1)
            if self.variants:
                for rows in self._variants(self._array[theirs.cpu().numpy()], samples.device):
                    best = torch.minimum(best, (rows.double() - sample).square_().sum(1))
            found.append(best)
        return torch.cat(found)

    def _write(
        self,
        place: Place,
        part: Integers,
        found: Neighbours,
        which: torch.Tensor,
        row: torch.Tensor,
        squares: torch.Tensor,
    ) -> None:
        """Write the first pair of each group, in order of distance and row, for each sample of ``part``."""
        groups = (row if place.groups is None else place.groups[row]).cpu().numpy()
        mine, theirs, distance = which.cpu().numpy(), row.cpu().numpy(), squares.sqrt().cpu().numpy()
        order = np.lexsort((theirs, distance, mine))
        pairs = np.stack([mine, groups], axis=1)[order]
        _, first = np.unique(pairs, axis=0, return_index=True)
        order = order[np.sort(first)]
        mine = mine[order]
        rank = np.arange(len(mine)) - np.searchsorted(mine, mine)
        order, mine, rank = (values[rank < found.rows.shape[1]] for values in (order, mine, rank))
        found.distances[part[mine], rank] = distance[order]
        found.rows[part[mine], rank] = theirs[order]
