"""Metrics of whole samples: how many are valid, how many are copies, how many are both valid and new."""

from __future__ import annotations

from typing import ClassVar, Literal

from twoclocks.evaluation.metric import METRICS, Column, Count, Metric, proportion
from twoclocks.evaluation.samples import Samples


@METRICS.register("sample_accuracy")
class SampleAccuracy(Metric):
    """Samples that obey the whole rule; there is no column where there is no rule."""

    name: ClassVar[str] = "sample_accuracy"
    place: ClassVar[int] = 0

    def columns(self) -> list[Column]:
        if not self.reference.rule.has_rule:
            return []
        chance = self.reference.rule.chance()
        return [
            Column(
                name=self.name,
                about="samples that obey the whole rule",
                direction="higher is better",
                chance_rule=1.0,
                chance_cube=chance,
            )
        ]

    def __call__(self, samples: Samples) -> dict[str, Count]:
        return {self.name: proportion(samples.outcome.valid)} if self.reference.rule.has_rule else {}


@METRICS.register("sample_memorization")
class SampleMemorization(Metric):
    """Samples that equal a training sample; images by the ratio of distances, texts by a common run of tokens."""

    name: ClassVar[str] = "sample_memorization"
    place: ClassVar[int] = 1
    of: ClassVar[Literal["both"]] = "both"

    def columns(self) -> list[Column]:
        rule = self.reference.rule
        return [
            Column(
                name=self.name,
                about=self.reference.copy_words("training"),
                direction="higher is copying",
                chance_rule=self.reference.copy_chance,
                chance_cube=None if rule.is_natural else rule.cube_copy_chance(len(self.reference.train)),
            )
        ]

    def __call__(self, samples: Samples) -> dict[str, Count]:
        return {self.name: proportion(samples.outcome.copied)}


@METRICS.register("valid_new")
class ValidNew(Metric):
    """Samples that obey the rule and are not in the training set; no column where there is no rule."""

    name: ClassVar[str] = "valid_new"
    place: ClassVar[int] = 2

    def columns(self) -> list[Column]:
        rule, n = self.reference.rule, len(self.reference.train)
        if not rule.has_rule:
            return []
        return [
            Column(
                name=self.name,
                about="samples that obey the rule and are not in the training set",
                direction="higher is better",
                chance_rule=1 - rule.copy_chance(n),
                chance_cube=rule.chance() - rule.cube_copy_chance(n),
            )
        ]

    def __call__(self, samples: Samples) -> dict[str, Count]:
        return {self.name: proportion(samples.new)} if self.reference.rule.has_rule else {}


@METRICS.register("holdout_memorization")
class HoldoutMemorization(Metric):
    """Samples that are copies of held-out ones; there is no column where too few valid ones are left to hold out."""

    name: ClassVar[str] = "holdout_memorization"
    place: ClassVar[int] = 5
    of: ClassVar[Literal["both"]] = "both"

    def columns(self) -> list[Column]:
        rule, holdout = self.reference.rule, self.reference.holdout
        if holdout is None:
            return []
        return [
            Column(
                name=self.name,
                about=self.reference.copy_words("held-out"),
                direction="neither",
                chance_rule=None if rule.is_natural else rule.copy_chance(len(holdout)),
                chance_cube=None if rule.is_natural else rule.cube_copy_chance(len(holdout)),
            )
        ]

    def __call__(self, samples: Samples) -> dict[str, Count]:
        holdout = self.reference.holdout
        return {} if holdout is None else {self.name: proportion(holdout.found(samples.symbols))}
