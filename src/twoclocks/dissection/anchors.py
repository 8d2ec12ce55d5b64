"""Find arrays near a training sample: valid and unseen, rule-breaking, and the nearest other training sample.

x_b is a valid array outside the training set that differs from the training sample x_a in as few entries as can be
found; x_c and x_d change one half of those entries each and break the rule. For parity these are P1's: two bits of a
group flipped, and one of them each. Changes of disjoint entries are orthogonal in every encoding, so the four points
are the corners of a rectangle.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import torch
from torch import Tensor

from twoclocks.evaluation.copies import Copies
from twoclocks.rules.base import Rule

POOL = 4096  # valid samples to search for a neighbour where no small change is valid
CHANGES = 1 << 16  # changes of two entries that are tried
CHUNK = 1 << 12  # of them at once
SPLITS = 64  # ways to halve a change that are tried


@dataclass(frozen=True)
class Corners:
    """Four arrays of symbols (*shape): a training sample, a valid unseen one, two that break the rule."""

    a: Tensor
    b: Tensor
    c: Tensor
    d: Tensor

    @property
    def hamming(self) -> int:
        """Entries in which the valid unseen one differs from the training sample."""
        return int((self.a != self.b).sum())

    def stack(self) -> Tensor:
        return torch.stack([self.a, self.b, self.c, self.d])


class Surroundings:
    """Finds neighbours of training samples; the result depends on the rule and the training set alone."""

    def __init__(self, rule: Rule, train: Tensor) -> None:
        self.rule, self.train = rule, train
        self.copies = Copies(train, rule.symbols)
        self.pairs = pair_changes(rule)

    def corners(self, row: int) -> Corners | None:
        """The four corners of the rectangle at a training row; None where no such neighbour was found."""
        a = self.train[row]
        for b in self.valid_unseen(a):
            halves = self.broken_halves(a, b)
            if halves is not None:
                return Corners(a, b, *halves)
        return None

    def valid_unseen(self, a: Tensor) -> Tensor:
        """Valid arrays outside the training set, nearest first: two entries changed, or else random valid samples."""
        for changes in self.pairs.split(CHUNK):
            near = apply(a, changes, self.rule.symbols)
            near = near[self.rule.is_valid(near) & ~self.copies.found(near)]
            if len(near):
                return near[:SPLITS]
        drawn = torch.cat([swapped(a, self.rule.symbols), self.rule.sample(POOL, seed=0)])
        drawn = drawn[self.rule.is_valid(drawn) & ~self.copies.found(drawn)]
        distance = (drawn != a).flatten(1).sum(dim=1)
        return drawn[distance.argsort(stable=True)][:8]

    def broken_halves(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor] | None:
        """Two arrays between a and b that change complementary halves of what differs, and both break the rule."""
        changed = (a != b).flatten().nonzero()[:, 0]
        size = len(changed) // 2
        if not size:
            return None
        for number, first in enumerate(combinations(range(len(changed)), size)):
            if number == SPLITS:
                break
            mask = torch.zeros(a.numel(), dtype=torch.bool)
            mask[changed[list(first)]] = True
            c = torch.where(mask.reshape(a.shape), b, a)
            d = torch.where(mask.reshape(a.shape), a, b)
            if not bool(self.rule.is_valid(torch.stack([c, d])).any()):
                return c, d
        return None

    def broken_neighbour(self, a: Tensor) -> Tensor | None:
        """The first array that differs from a in one entry and breaks the rule."""
        near = apply(a, single_changes(self.rule), self.rule.symbols)
        broken = near[~self.rule.is_valid(near)]
        return broken[0] if len(broken) else None

    def nearest_training(self, row: int) -> Tensor:
        """The other training row that differs in the fewest entries."""
        distance = (self.train != self.train[row]).flatten(1).sum(dim=1)
        distance[row] = self.train[row].numel() + 1
        return self.train[int(distance.argmin())]


def single_changes(rule: Rule) -> Tensor:
    """All changes of one entry: (changes, 2, 1), the position and the number added to the symbol there."""
    entries = rule.empty(1).numel()
    return torch.tensor([[[place], [by]] for place in range(entries) for by in range(1, rule.symbols)])


def pair_changes(rule: Rule) -> Tensor:
    """Changes of two entries, neighbouring positions first: (changes, 2, 2); at most ``CHANGES`` of them."""
    entries, amounts = rule.empty(1).numel(), list(product(range(1, rule.symbols), repeat=2))
    places = sorted(combinations(range(entries), 2), key=lambda pair: (pair[1] - pair[0], pair[0]))
    places = places[: max(1, CHANGES // len(amounts))]
    return torch.tensor([[place, by] for place in places for by in amounts]).reshape(-1, 2, 2)


def apply(a: Tensor, changes: Tensor, symbols: int) -> Tensor:
    """The array a (*shape) with each of the changes applied: (changes, *shape)."""
    found = a.flatten().repeat(len(changes), 1)
    rows = torch.arange(len(changes))[:, None]
    found[rows, changes[:, 0]] = (found[rows, changes[:, 0]] + changes[:, 1]) % symbols
    return found.reshape(len(changes), *a.shape)


def swapped(a: Tensor, symbols: int) -> Tensor:
    """The array with two symbols exchanged, for every pair: still valid under rules that treat symbols alike."""
    found = [torch.where(a == p, q, torch.where(a == q, p, a)) for p, q in combinations(range(symbols), 2)]
    return torch.stack(found) if found else a[None][:0]
