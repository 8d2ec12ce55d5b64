"""Settings of the training set."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twoclocks.core.config import Settings, setting
from twoclocks.core.errors import SettingError
from twoclocks.data.augmentation import augmentation, check_augmentation
from twoclocks.data.noisy import Noisy
from twoclocks.data.omission import omitted_contents
from twoclocks.data.sets import check_sets, training_set
from twoclocks.data.shown import Change
from twoclocks.rules.base import Rule

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class DataSettings(Settings):
    """The training set."""

    n: int = setting(help="number of unique training samples", at_least=2)
    seed: int = setting(0, "seed of the data sets; training has its own")
    part: int = setting(
        0,
        "which of the disjoint training sets of this seed: 0, 1, …; sets of part 1 are also disjoint where one n is at "
        "least twice the other",
        at_least=0,
    )
    omit: int = setting(
        0,
        "how many contents of a piece, such as a group, no training sample has; data.seed chooses them",
        at_least=0,
        added=True,
    )
    transposed: bool = setting(
        False, "train on the transposes of what the transposed rule draws (latin, sudoku)", added=True
    )

    augment: bool = setting(
        False,
        "show every sample with its groups or rows in a random order, or an image mirrored or not, each time anew",
        added=True,
    )
    noise: float = setting(
        0.0,
        "share of the entries of a shown sample that are those of another sample at the same place, each time anew",
        at_least=0,
        below=1,
        added=True,
    )
    easier_group: int = setting(
        0, "bits per group of the easier samples that the first steps show (parity); 0: none", at_least=0, added=True
    )
    easier_steps: int = setting(0, "steps that show the easier samples", at_least=0, at_most=10**12, added=True)

    def check(self) -> None:
        if bool(self.easier_group) != bool(self.easier_steps):
            fix = "a curriculum needs both data.easier_group and data.easier_steps; set both, or none"
            raise SettingError("easier_steps", self.easier_steps, fix)

    def check_rule(self, rule: Rule) -> None:
        """Raise SettingError unless the rule has such a training set."""
        check_sets(rule, self.n, self.part, self.omit, self.transposed)
        if self.augment:
            check_augmentation(rule)
        if self.easier_group:
            check_sets(self.easier_rule(rule), self.n, self.part, 0, False)

    def easier_rule(self, rule: Rule) -> Rule:
        """The rule with smaller groups whose samples come first."""
        group = getattr(rule, "group", None)
        if group is None:
            raise SettingError("easier_group", self.easier_group, "this rule has no groups; use 0, or a rule of groups")
        if self.easier_group >= group:
            raise SettingError("easier_group", self.easier_group, f"use fewer bits than rule.group = {group}")
        try:
            return replace(rule, group=self.easier_group)  # type: ignore[call-arg]
        except SettingError as error:
            raise SettingError("easier_group", self.easier_group, str(error).partition("; ")[2] or str(error)) from None

    def changes(self, rule: Rule, device: str) -> tuple[Change, ...]:
        """What happens to encoded samples whenever a step shows them."""
        changes: list[Change] = [augmentation(rule, device)] if self.augment else []
        if self.noise:
            changes.append(Noisy(self.noise, math.prod(rule.shape[-2:]) if rule.is_image else math.prod(rule.shape)))
        return tuple(changes)

    def easier_set(self, rule: Rule) -> Tensor | None:
        """The easier samples (n, *shape) that the first steps show; None without a curriculum."""
        if not self.easier_group:
            return None
        return training_set(self.easier_rule(rule), self.n, self.seed, self.part)

    def training_set(self, rule: Rule) -> Tensor:
        """The training set of a run: unique valid samples (n, *shape)."""
        return training_set(rule, self.n, self.seed, self.part, self.omit, self.transposed)

    def omitted(self, rule: Rule) -> Tensor | None:
        """The contents (omit, entries) of a piece that no training sample has; None without any."""
        return omitted_contents(rule, self.omit, self.seed) if self.omit else None
