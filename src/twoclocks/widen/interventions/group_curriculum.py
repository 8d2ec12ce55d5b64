"""A curriculum over groups: samples with smaller groups first (P1 proposes one in G)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from twoclocks.core.config import setting
from twoclocks.rules.base import Rule
from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


@INTERVENTIONS.register("group_curriculum")
@dataclass(frozen=True, kw_only=True)
class EasierGroupsFirst(Intervention):
    """The first steps show samples of the same length with smaller groups."""

    group: int = setting(0, "bits per group of the first samples; 0: the next smaller divisor", at_least=0)
    share: float = setting(0.05, "share of the training steps that show them", above=0, below=1)

    def change(self, base: RunSettings) -> dict[str, Any]:
        steps = max(1, round(self.share * base.training.steps))
        return {"data.easier_group": self.group or next_smaller(base.rule), "data.easier_steps": steps}


def next_smaller(rule: Rule) -> int:
    """The largest group size below that of a rule that divides its length; 1 where there is none, or no groups."""
    group, length = getattr(rule, "group", 2), math.prod(rule.shape)
    return max((size for size in range(1, group) if length % size == 0), default=1)
