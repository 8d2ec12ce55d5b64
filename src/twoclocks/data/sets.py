"""Draw the data sets of a run from one seed: training set, held-out valid set, cube set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twoclocks.core.errors import SettingError
from twoclocks.core.lazy import torch
from twoclocks.core.rows import row_keys
from twoclocks.core.seeds import derive, numpy_stream
from twoclocks.rules.base import Rule

if TYPE_CHECKING:
    from torch import Tensor

BLOCKS = (64, 1 << 18)  # rows in the first draw, and most rows per draw; sizes double and do not depend on n
MOST_REPEATED = 64  # draws per valid sample without a new one, after which the generator counts as broken


def training_set(rule: Rule, n: int, seed: int = 0, part: int = 0) -> Tensor:
    """Draw n unique valid samples (n, *shape), equal for equal arguments on every machine.

    Sets of the same seed and n but different ``part`` are disjoint.

    >>> from twoclocks import rules
    >>> training_set(rules.create("parity", length=12, group=3), n=5, seed=0).shape
    torch.Size([5, 12])
    """
    check_size(rule, n, part)
    return draw_unique(rule, (part + 1) * n, seed, "training set")[part * n :]


def disjoint_training_sets(rule: Rule, n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw two training sets without a common row (part 0 and part 1), for models that must not share data."""
    check_size(rule, n, part=1)
    both = draw_unique(rule, 2 * n, seed, "training set")
    return both[:n], both[n:]


def held_out(rule: Rule, train: Tensor, n: int, seed: int = 0) -> Tensor:
    """Draw n unique valid samples that are not in ``train``."""
    room = rule.support() - len(np.unique(row_keys(train, rule.symbols)))
    if room < 1:
        raise SettingError("n", n, "the training set contains all samples of the rule; use fewer training samples")
    if not 1 <= n <= room:
        raise SettingError("n", n, f"{room} samples lie outside the training set; use 1 to {room}")
    return draw_unique(rule, n, seed, "held-out set", exclude=train)


def holdout_set(rule: Rule, train: Tensor, seed: int = 0) -> Tensor | None:
    """Draw as many unique valid samples as ``train`` has, none of them in it; None if the rule has too few.

    They are independent of the samples that ``held_out`` returns for the same seed.
    """
    if rule.support() < 2 * len(train):
        return None
    return held_out(rule, train, len(train), derive(seed, "holdout set"))


def cube_set(rule: Rule, n: int, seed: int = 0) -> Tensor:
    """Draw n arrays of uniform symbols (n, *shape), valid or not: samples of a model that learned no rule."""
    rng = numpy_stream(seed, "cube set")
    return torch.from_numpy(rng.integers(0, rule.symbols, size=(n, *rule.shape), dtype=np.int64))


def loss_splits(rule: Rule, train: Tensor, rows: int, seed: int = 0) -> dict[str, Tensor]:
    """Rows on which losses are measured: training, cube and held-out rows (if there are any), equally many of each.

    Small sets are repeated, so that row i of every split can be given the same noise.
    """
    splits = {"train": train[:rows], "cube": cube_set(rule, rows, seed)}
    if room := rule.support() - len(train):
        splits["held_out"] = held_out(rule, train, min(rows, room), seed)
    return {name: found[torch.arange(rows) % len(found)] for name, found in splits.items()}


def check_size(rule: Rule, n: int, part: int = 0) -> None:
    """Raise SettingError unless the rule has enough samples for a training set of size n and its part."""
    room = rule.support()
    if not isinstance(n, int | np.integer) or n < 2:
        raise SettingError("n", n, "use an integer of at least 2")
    if part < 0:
        raise SettingError("part", part, "use 0, 1, …")
    if n > room:
        raise SettingError("n", n, f"the rule has only {room} samples to draw; use fewer, or a larger rule")
    if (part + 1) * n > room:
        fix = f"the rule has {room} samples to draw; use n up to {room // (part + 1)}, or part up to {room // n - 1}"
        raise SettingError("part", part, fix)


def draw_unique(rule: Rule, n: int, seed: int, purpose: str, exclude: Tensor | None = None) -> Tensor:
    """Draw n unique rows by rejection: rows that are excluded or were drawn before are dropped.

    Rows stay in the order of their first draw, and the sizes of blocks do not depend on n. So a smaller set is a prefix
    of a larger one with the same seed, for every rule.
    """
    rng = numpy_stream(seed, purpose)
    seen = row_keys(rule.empty(0) if exclude is None else exclude, rule.symbols)
    accepted, found, block, repeated, support = [], 0, BLOCKS[0], 0, rule.support()
    while found < n:
        rows = rule.draw(block, rng)
        keys = row_keys(rows, rule.symbols)
        _, first = np.unique(keys, return_index=True)
        first = np.sort(first[~np.isin(keys[first], seen)])[: n - found]
        accepted.append(rows[first])
        seen = np.concatenate([seen, keys[first]])
        repeated = 0 if len(first) else repeated + block
        if repeated > MOST_REPEATED * support:
            raise RuntimeError(f"{rule}: draw() reaches {len(seen)} samples, support() promises {support}")
        found, block = found + len(first), min(2 * block, BLOCKS[1])
    return torch.from_numpy(np.ascontiguousarray(np.concatenate(accepted), dtype=np.int64))
