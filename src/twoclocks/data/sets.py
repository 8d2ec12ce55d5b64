"""What the model sees and what it does not: training set, held-out valid set, cube set; all from one seed."""

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

BLOCKS = (64, 1 << 18)  # rows drawn first and, doubling, at most at once; the schedule does not depend on n
PATIENCE = 64  # draws for each sample of the rule without a new one, after which a generator is called broken


def training_set(rule: Rule, n: int, seed: int = 0, part: int = 0) -> Tensor:
    """n unique valid samples (n, *shape); the same for the same arguments on every machine.

    Sets of the same seed and n but different ``part`` are disjoint.

    >>> from twoclocks import rules
    >>> training_set(rules.create("parity", length=12, group=3), n=5, seed=0).shape
    torch.Size([5, 12])
    """
    check_size(rule, n, part)
    return draw_unique(rule, (part + 1) * n, seed, "training set")[part * n :]


def disjoint_training_sets(rule: Rule, n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two training sets without a common row, for two models that must not share data; part 0 and part 1."""
    check_size(rule, n, part=1)
    both = draw_unique(rule, 2 * n, seed, "training set")
    return both[:n], both[n:]


def held_out(rule: Rule, train: Tensor, n: int, seed: int = 0) -> Tensor:
    """n unique valid samples, none of them in ``train``."""
    room = rule.support() - len(np.unique(row_keys(train, rule.symbols)))
    if room < 1:
        raise SettingError("n", n, "the training set holds all that the rule draws; use fewer training samples")
    if not 1 <= n <= room:
        raise SettingError("n", n, f"{room} samples lie outside the training set; use 1 to {room}")
    return draw_unique(rule, n, seed, "held-out set", exclude=train)


def holdout_set(rule: Rule, train: Tensor, seed: int = 0) -> Tensor | None:
    """As many unique valid samples as ``train`` has, none of them in it; None where the rule has too few for both.

    They are drawn apart from those that ``held_out`` gives for the same seed.
    """
    if rule.support() < 2 * len(train):
        return None
    return held_out(rule, train, len(train), derive(seed, "holdout set"))


def cube_set(rule: Rule, n: int, seed: int = 0) -> Tensor:
    """n arrays of uniform symbols (n, *shape), valid or not: what a model knows that learned no rule."""
    rng = numpy_stream(seed, "cube set")
    return torch.from_numpy(rng.integers(0, rule.symbols, size=(n, *rule.shape), dtype=np.int64))


def loss_splits(rule: Rule, train: Tensor, rows: int, seed: int = 0) -> dict[str, Tensor]:
    """Rows of ``train``, of the cube, and of valid samples outside ``train`` (where there are any), as many of each.

    Small sets are repeated, so that row i of every split can meet the same noise.
    """
    splits = {"train": train[:rows], "cube": cube_set(rule, rows, seed)}
    if room := rule.support() - len(train):
        splits["held_out"] = held_out(rule, train, min(rows, room), seed)
    return {name: found[torch.arange(rows) % len(found)] for name, found in splits.items()}


def check_size(rule: Rule, n: int, part: int = 0) -> None:
    room = rule.support()
    if not isinstance(n, int | np.integer) or n < 2:
        raise SettingError("n", n, "use a whole number of at least 2 training samples")
    if part < 0:
        raise SettingError("part", part, "use 0, 1, …")
    if n > room:
        raise SettingError("n", n, f"the rule has only {room} samples to draw; use fewer, or a larger rule")
    if (part + 1) * n > room:
        fix = f"the rule has {room} samples to draw; use n up to {room // (part + 1)}, or part up to {room // n - 1}"
        raise SettingError("part", part, fix)


def draw_unique(rule: Rule, n: int, seed: int, purpose: str, exclude: Tensor | None = None) -> Tensor:
    """Rejection sampling: draw, drop what is excluded or was drawn before, until n rows are there.

    Rows stay in the order of their first draw, and blocks have sizes that do not depend on n, so a smaller set is the
    beginning of a larger one with the same seed, whatever the rule.
    """
    rng = numpy_stream(seed, purpose)
    seen = row_keys(rule.empty(0) if exclude is None else exclude, rule.symbols)
    kept, found, block, fruitless, room = [], 0, BLOCKS[0], 0, rule.support()
    while found < n:
        fresh = rule.draw(block, rng)
        keys = row_keys(fresh, rule.symbols)
        _, first = np.unique(keys, return_index=True)
        first = np.sort(first[~np.isin(keys[first], seen)])[: n - found]
        kept.append(fresh[first])
        seen = np.concatenate([seen, keys[first]])
        fruitless = 0 if len(first) else fruitless + block
        if fruitless > PATIENCE * room:
            raise RuntimeError(f"{rule}: draw() reaches {len(seen)} samples, support() promises {room}")
        found, block = found + len(first), min(2 * block, BLOCKS[1])
    return torch.from_numpy(np.ascontiguousarray(np.concatenate(kept), dtype=np.int64))
