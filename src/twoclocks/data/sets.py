"""Draw the data sets of a run from one seed: training set, held-out valid set, cube set."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import SettingError
from twoclocks.core.lazy import torch
from twoclocks.core.rows import is_member, row_keys
from twoclocks.core.seeds import derive, numpy_stream, random_order
from twoclocks.data.omission import lacks, omitted_contents, room_without
from twoclocks.rules.base import Array, Listed, Rule

if TYPE_CHECKING:
    from torch import Tensor

BLOCKS = (64, 1 << 18)  # rows in the first draw, and most rows per draw; sizes double and do not depend on n
MOST_HELD_OUT = 1 << 13  # images or texts with which samples are compared
MOST_REPEATED = 64  # draws per valid sample without a new one, after which the generator counts as broken


def training_set(rule: Rule, n: int, seed: int = 0, part: int = 0, omit: int = 0, transposed: bool = False) -> Tensor:
    """Draw n unique valid samples (n, *shape), equal for equal arguments on every machine.

    A set has the rows part · n to (part + 1) · n of one stream. So sets of the same seed and n but different ``part``
    are disjoint, and so are sets of part 1 where one n is at least twice the other.

    No sample has one of ``omit`` contents of a piece, the same for all sets of a seed. ``transposed``: the samples are
    the transposes of those that the transposed rule draws; a Latin square is its own transposed rule, Sudoku with
    blocks of 2×3 that of 3×2.

    >>> from twoclocks import rules
    >>> training_set(rules.create("parity", length=12, group=3), n=5, seed=0).shape
    torch.Size([5, 12])
    """
    check_sets(rule, n, part, omit, transposed)
    if transposed:
        return training_set(transposed_rule(rule), n, seed, part, omit).transpose(1, 2).contiguous()
    omitted = omitted_contents(rule, omit, seed) if omit else None
    keep = None if omitted is None else lambda rows: lacks(rule, rows, omitted)
    return draw_unique(rule, (part + 1) * n, seed, "training set", keep=keep)[part * n :]


def transposed_rule(rule: Rule) -> Rule:
    """The rule of the transposed arrays; SettingError where it is none of ours."""
    found = rule.transposed()
    if found is None:
        fix = "the transposed samples of this rule obey another one; use latin, sudoku or their cyclic forms, or false"
        raise SettingError("transposed", True, fix)
    return found


def disjoint_training_sets(rule: Rule, n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw two training sets without a common row (part 0 and part 1), for models that must not share data."""
    check_size(rule, n, part=1)
    both = draw_unique(rule, 2 * n, seed, "training set")
    return both[:n], both[n:]


def held_out(rule: Rule, train: Tensor, n: int, seed: int = 0) -> Tensor:
    """Draw n unique valid samples that are not in ``train``."""
    room = room_outside(rule, train)
    if room < 1:
        raise SettingError("n", n, "the training set contains all samples of the rule; use fewer training samples")
    if not 1 <= n <= room:
        raise SettingError("n", n, f"{room} samples lie outside the training set; use 1 to {room}")
    if (unseen := rule.unseen()) is not None:
        return deal(unseen, n, seed, "held-out set")
    return draw_unique(rule, n, seed, "held-out set", exclude=train)


def room_outside(rule: Rule, train: Tensor) -> int:
    """How many samples can be held out."""
    if (unseen := rule.unseen()) is not None:
        return len(unseen)
    return rule.support() - len(np.unique(row_keys(train, rule.symbols)))


def holdout_set(rule: Rule, train: Tensor, seed: int = 0) -> Tensor | None:
    """Draw as many unique valid samples as ``train`` has, none of them in it; None if the rule has too few.

    They are independent of the samples that ``held_out`` returns for the same seed.
    """
    if room_outside(rule, train) < len(train):
        return None
    return held_out(rule, train, len(train), derive(seed, "holdout set"))


def natural_held_out(rule: Rule, train: Tensor, seed: int = 0) -> Tensor | None:
    """As many images or texts as can be held out, up to ``MOST_HELD_OUT``; None if there are none, or for a rule."""
    room = min(room_outside(rule, train), MOST_HELD_OUT) if rule.is_natural else 0
    return held_out(rule, train, room, derive(seed, "holdout set")) if room > 0 else None


def cube_set(rule: Rule, n: int, seed: int = 0) -> Tensor:
    """Draw n arrays of uniform symbols (n, *shape), valid or not: samples of a model that learned no rule."""
    rng = numpy_stream(seed, "cube set")
    return torch.from_numpy(rng.integers(0, rule.symbols, size=(n, *rule.shape), dtype=np.int64))


def loss_splits(rule: Rule, train: Tensor, rows: int, seed: int = 0) -> dict[str, Tensor]:
    """Rows on which losses are measured: training, cube and held-out rows (if there are any), equally many of each.

    Uniform pixels are nothing like an image, so images have no cube rows.

    Small sets are repeated, so that row i of every split can be given the same noise.
    """
    splits = {"train": train[:rows]} | ({} if rule.is_image else {"cube": cube_set(rule, rows, seed)})
    if room := room_outside(rule, train):
        splits["held_out"] = held_out(rule, train, min(rows, room), seed)
    return {name: found[torch.arange(rows) % len(found)] for name, found in splits.items()}


def check_sets(rule: Rule, n: int, part: int, omit: int, transposed: bool) -> None:
    """Raise SettingError unless the rule has such a training set."""
    if transposed:
        transposed_rule(rule)
    check_size(rule, n, part, room_without(rule, omit) if omit else None)


def check_size(rule: Rule, n: int, part: int = 0, room: int | None = None) -> None:
    """Raise SettingError unless there are enough samples for a training set of size n and its part.

    ``room``: how many may be drawn; None: all that the rule can draw.
    """
    room = rule.support() if room is None else room
    if not isinstance(n, int | np.integer) or n < 2:
        raise SettingError("n", n, "use an integer of at least 2")
    if part < 0:
        raise SettingError("part", part, "use 0, 1, …")
    if n > room:
        raise SettingError("n", n, f"the rule has only {room} samples to draw; use fewer, or a larger rule")
    if (part + 1) * n > room:
        fix = f"the rule has {room} samples to draw; use n up to {room // (part + 1)}, or part up to {room // n - 1}"
        raise SettingError("part", part, fix)


def draw_unique(
    rule: Rule,
    n: int,
    seed: int,
    purpose: str,
    exclude: Tensor | None = None,
    keep: Callable[[Array], npt.NDArray[np.bool_]] | None = None,
) -> Tensor:
    """Draw n unique rows by rejection: rows that are excluded, not to ``keep`` or were drawn before are dropped.

    Rows stay in the order of their first draw, and the sizes of blocks do not depend on n. So a smaller set is a prefix
    of a larger one with the same seed, for every rule.
    """
    if (listed := rule.listed()) is not None:
        there = None if exclude is None else is_member(listed, exclude, rule.symbols)
        return deal(listed, n, seed, purpose, there)
    rng = numpy_stream(seed, purpose)
    seen = row_keys(rule.empty(0) if exclude is None else exclude, rule.symbols)
    accepted, found, block, repeated, support = [], 0, BLOCKS[0], 0, rule.support()
    while found < n:
        rows = rule.draw(block, rng)
        rows = rows if keep is None else rows[keep(rows)]
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


def deal(
    listed: Array | Listed, n: int, seed: int, purpose: str, excluded: npt.NDArray[np.bool_] | None = None
) -> Tensor:
    """The first n rows of a shuffled list that are not excluded; a smaller set is a prefix of a larger one."""
    order = random_order(len(listed), seed, purpose)
    if excluded is not None:
        order = order[~excluded[order]]
    return torch.from_numpy(np.ascontiguousarray(listed[order[:n]], dtype=np.int64))
