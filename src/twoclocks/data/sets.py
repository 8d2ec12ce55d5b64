"""What the model sees and what it does not: training set, held-out valid set, cube set; all from one seed."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from twoclocks.core.errors import SettingError
from twoclocks.core.rows import row_keys
from twoclocks.core.seeds import numpy_stream
from twoclocks.rules.base import Rule


def training_set(rule: Rule, n: int, seed: int = 0) -> Tensor:
    """n unique valid samples (n, *shape); the same for the same arguments on every machine.

    >>> from twoclocks import rules
    >>> training_set(rules.create("parity", length=12, group=3), n=5, seed=0).shape
    torch.Size([5, 12])
    """
    check_size(rule, n)
    return draw_unique(rule, n, seed, "training set", exclude=None)


def held_out(rule: Rule, train: Tensor, n: int, seed: int = 0) -> Tensor:
    """n unique valid samples, none of them in ``train``."""
    room = rule.count() - len(train)
    if not 1 <= n <= room:
        raise SettingError("n", n, f"{room} valid samples lie outside the training set; use 1 to {room}")
    return draw_unique(rule, n, seed, "held-out set", exclude=train)


def cube_set(rule: Rule, n: int, seed: int = 0) -> Tensor:
    """n arrays of uniform symbols (n, *shape), valid or not: what a model knows that learned no rule."""
    rng = numpy_stream(seed, "cube set")
    return torch.from_numpy(rng.integers(0, rule.symbols, size=(n, *rule.shape), dtype=np.int64))


def check_size(rule: Rule, n: int) -> None:
    if n < 2:
        raise SettingError("n", n, "use at least 2 training samples")
    if n > rule.count():
        raise SettingError("n", n, f"the rule has only {rule.count()} valid samples; use fewer, or a larger rule")


def draw_unique(rule: Rule, n: int, seed: int, purpose: str, exclude: Tensor | None) -> Tensor:
    """Rejection sampling: draw, drop what is excluded or was drawn before, until n rows are there.

    Rows stay in the order of their first draw, so a smaller set is the beginning of a larger one with the same seed.
    """
    rng = numpy_stream(seed, purpose)
    room = rule.count() - (0 if exclude is None else len(exclude))
    kept = rule.empty(0)
    banned = row_keys(rule.empty(0) if exclude is None else exclude, rule.symbols)
    while len(kept) < n:
        # Coupon collector: expected draws until n of `room` are seen, a little more, in bounded pieces.
        missing = n - len(kept)
        share = min(len(kept) + missing, room - 1) / room if room > 1 else 0.5
        draws = math.ceil(1.1 * missing / max(1 - share, 0.05)) + 8
        fresh = torch.from_numpy(rule.draw(min(draws, 1 << 20), rng))
        merged = torch.cat([kept, fresh])
        keys = row_keys(merged, rule.symbols)
        _, first = np.unique(keys, return_index=True)
        first = first[~np.isin(keys[first], banned)]
        kept = merged[torch.from_numpy(np.sort(first)[:n])]
    return kept
