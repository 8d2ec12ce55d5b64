"""Settings of the training set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twoclocks.core.config import Settings, setting
from twoclocks.data.omission import omitted_contents
from twoclocks.data.sets import check_sets, training_set
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

    def check_rule(self, rule: Rule) -> None:
        """Raise SettingError unless the rule has such a training set."""
        check_sets(rule, self.n, self.part, self.omit, self.transposed)

    def training_set(self, rule: Rule) -> Tensor:
        """The training set of a run: unique valid samples (n, *shape)."""
        return training_set(rule, self.n, self.seed, self.part, self.omit, self.transposed)

    def omitted(self, rule: Rule) -> Tensor | None:
        """The contents (omit, entries) of a piece that no training sample has; None without any."""
        return omitted_contents(rule, self.omit, self.seed) if self.omit else None
