"""A metric of your own: how many samples consist of one symbol only, a sign of a collapsed model.

Save this file, change it, and use it:

    twoclocks list templates metric > my_metric.py
    twoclocks list metrics --import my_metric.py
    twoclocks run demo --import my_metric.py
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch

from twoclocks.evaluation.metric import METRICS, Column, Count, Metric, proportion
from twoclocks.evaluation.samples import Samples


@METRICS.register("constant")
class Constant(Metric):
    """Samples whose entries are all the same symbol."""

    name: ClassVar[str] = "constant"  # under which it is registered; also the name of its column

    def columns(self) -> list[Column]:
        """Meaning, direction and chance levels; ``self.reference`` holds the rule and the training set."""
        rule = self.reference.rule
        every = torch.arange(rule.symbols).reshape(-1, *[1] * len(rule.shape)).expand(-1, *rule.shape)
        valid = int(rule.is_valid(every).sum())
        return [
            Column(
                name=self.name,
                about="samples that consist of one symbol only",
                direction="lower is better",  # or "higher is better", "higher is copying", "neither"
                chance_rule=valid / rule.count(),  # for a perfect model of the rule; None: not known
                chance_cube=float(rule.symbols ** (1 - math.prod(rule.shape))),  # for uniform symbols
            )
        ]

    def __call__(self, samples: Samples) -> dict[str, Count]:
        """One value per column: a proportion as counts, any other number as a float tensor on the samples' device."""
        rows = samples.symbols.flatten(1)
        return {self.name: proportion((rows == rows[:, :1]).all(dim=1))}


# In a test of yours:
#     from twoclocks import rules
#     from twoclocks.testing import check_metric
#     check_metric(Constant, rules.create("parity", length=8, group=4))
