"""From decoded samples to numbers: P1's metrics, each with its direction, its chance levels and its definition.

Evaluation sees samples, never models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from twoclocks.core.config import Settings, setting
from twoclocks.core.constants import CHANCE_SAMPLES
from twoclocks.core.errors import SettingError
from twoclocks.data.encodings import Decoded
from twoclocks.evaluation.copies import Copies
from twoclocks.evaluation.diversity import Diversity
from twoclocks.evaluation.metric import Metric, pieces_named
from twoclocks.evaluation.neighbours import Neighbours
from twoclocks.rules.base import Rule, all_pieces, in_range


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(Settings):
    """How often, and on how many samples, a run is evaluated."""

    samples: int = setting(
        2048, "samples generated at every evaluation, always from the same noise", at_least=1, at_most=10**9
    )
    evaluations: int = setting(80, "number of log-spaced evaluations", at_least=1, at_most=10**6)
    first: int = setting(10, "step of the first evaluation", at_least=1)
    steps: tuple[int, ...] | None = setting(None, "explicit steps in place of the log-spaced ones", at_least=0)
    quantization: tuple[float, ...] = setting((0.1, 0.2, 0.5), "distances beyond which a sample is invalid", above=0)
    loss_rows: int = setting(512, "rows of each split on which the loss is measured", at_least=1, at_most=10**7)
    keep_samples: int = setting(2048, "decoded samples stored at every evaluation", at_least=0)
    keep_weights: int = setting(
        24, "evaluations, log-spaced among all, whose weights are stored for dissection; 0: none", at_least=0
    )
    seed: int = setting(0, "seed of the initial noise and of the loss's noise")

    def check(self) -> None:
        if not self.quantization:
            raise SettingError("quantization", [], "give at least one distance, for example [0.5]")


@dataclass(frozen=True)
class Outcome:
    """What became of each sample: its states and the counts they add up to."""

    valid: Tensor  # bool (n,): obeys the rule, after rounding to symbols
    copied: Tensor  # bool (n,): equals a training row
    distance: Tensor  # (n,): to the code book

    @property
    def new(self) -> Tensor:
        return self.valid & ~self.copied


class Evaluator:
    """All metrics of one run's samples against its rule and training set, on the device where that set lies.

    The training side is prepared once; an evaluation brings two small tensors to the host, its checks and its row.
    ``holdout`` are valid rows that were not trained on: hits among them are copies that cannot be memory.
    """

    def __init__(self, rule: Rule, train: Tensor, settings: EvaluationSettings, holdout: Tensor | None = None) -> None:
        self.rule, self.train, self.settings = rule, train, settings
        self.copies, self.neighbours = Copies(train, rule.symbols), Neighbours(train, rule.symbols)
        self.holdout = None if holdout is None else Copies(holdout.to(train.device), rule.symbols)
        self.diversity = Diversity(rule, train, self.copies, settings.samples)
        self.part_copies = {
            kind: Copies(piece.flatten(0, 1), rule.symbols) for kind, piece in rule.parts(train).items()
        }

    def judge(self, decoded: Decoded) -> Outcome:
        """What became of each sample."""
        decoded = self.checked(decoded)
        return self.outcome(decoded, self.rule.parts_valid(decoded.symbols))

    def checked(self, decoded: Decoded) -> Decoded:
        """The samples on the training set's device, or an error: what is not a sample must not count as a miss."""
        symbols, distance = (values.to(self.train.device) for values in decoded)
        symbols = self.rule.as_samples(symbols)
        finite, known = torch.stack(
            [torch.isfinite(distance).all(), in_range(symbols, self.rule.symbols).all()]
        ).tolist()
        if not finite:
            raise FloatingPointError("the sampler produced values that are not finite")
        if not known:
            raise ValueError(f"decoded samples hold symbols outside 0..{self.rule.symbols - 1}")
        return Decoded(symbols, distance)

    def outcome(self, decoded: Decoded, parts_valid: Mapping[str, Tensor]) -> Outcome:
        return Outcome(all_pieces(parts_valid), self.copies.found(decoded.symbols), decoded.distance)

    def __call__(self, decoded: Decoded) -> dict[str, float]:
        """Name to value; fractions come with their number of samples as ``trials``."""
        decoded = self.checked(decoded)
        parts, parts_valid = self.rule.parts(decoded.symbols), self.rule.parts_valid(decoded.symbols)
        outcome = self.outcome(decoded, parts_valid)
        row: dict[str, Tensor] = {
            "sample_accuracy": mean(outcome.valid),
            "sample_memorization": mean(outcome.copied),
            "valid_new": mean(outcome.new),
            "quantization_distance": mean(outcome.distance),
        }
        if self.holdout is not None:
            row["holdout_memorization"] = mean(self.holdout.found(decoded.symbols))
        for threshold in self.settings.quantization:
            row[f"invalid_{threshold:g}"] = mean(outcome.distance > threshold)
        for kind, valid in parts_valid.items():
            row[f"{kind}_accuracy"] = mean(valid)
            row[f"{kind}_memorization"] = self.seen(kind, parts[kind])
        row |= self.diversity(decoded.symbols, parts, outcome.new)
        nearest = self.neighbours.distance(decoded.symbols)
        row["nearest_distance"] = mean(nearest)
        row["nearest_distance_valid"] = mean_over(nearest, outcome.valid)
        row["nearest_distance_valid_new"] = mean_over(nearest, outcome.new)
        values = torch.stack(list(row.values())).tolist()  # all at once: each number fetched alone would wait
        return {"trials": len(decoded.symbols), **dict(zip(row, values, strict=True))}

    def seen(self, kind: str, pieces: Tensor) -> Tensor:
        """Fraction of the pieces (n, pieces, entries) that some training sample has, wherever in it."""
        return mean(self.part_copies[kind].found(pieces.flatten(0, 1)))

    def metrics(self) -> list[Metric]:
        """The meaning and the chance levels of every column that ``__call__`` returns."""
        rule, n = self.rule, len(self.train)
        copy_rule = rule.copy_chance(n)
        copy_cube = rule.cube_copy_chance(n)
        found = [
            Metric(
                name="sample_accuracy",
                about="samples that obey the whole rule",
                direction="higher is better",
                chance_rule=1.0,
                chance_cube=rule.chance(),
            ),
            Metric(
                name="sample_memorization",
                about="samples that equal a training sample",
                direction="higher is copying",
                chance_rule=copy_rule,
                chance_cube=copy_cube,
            ),
            Metric(
                name="valid_new",
                about="samples that obey the rule and are not in the training set",
                direction="higher is better",
                chance_rule=1 - copy_rule,
                chance_cube=rule.chance() - copy_cube,
            ),
            Metric(
                name="quantization_distance",
                about="mean over samples of the largest distance of an entry to a symbol",
                direction="lower is better",
                chance_rule=0.0,
                chance_cube=0.0,
            ),
        ]
        for threshold in self.settings.quantization:
            about = f"samples with an entry farther than {threshold:g} from every symbol"
            found.append(
                Metric(name=f"invalid_{threshold:g}", about=about, direction="lower is better", chance_rule=0.0)
            )
        return (
            found + self.holdout_metrics() + self.part_metrics() + self.diversity.metrics() + self.neighbour_metrics()
        )

    def holdout_metrics(self) -> list[Metric]:
        if self.holdout is None:
            return []
        return [
            Metric(
                name="holdout_memorization",
                about="samples that equal one of as many valid samples that were not trained on",
                direction="neither",
                chance_rule=self.rule.copy_chance(len(self.holdout)),
                chance_cube=self.rule.cube_copy_chance(len(self.holdout)),
            )
        ]

    def part_metrics(self) -> list[Metric]:
        found = []
        chances, counts = self.rule.part_chance(), self.rule.part_counts()
        sizes = {kind: piece.shape[2] for kind, piece in self.rule.parts(self.train[:1]).items()}
        truth = {} if self.rule.uniform_parts else self.rule.parts(self.rule.sample(CHANCE_SAMPLES, seed=0))
        for kind, copies in self.part_copies.items():
            if sizes[kind] == math.prod(self.rule.shape):  # the piece is the whole sample
                chance_rule = self.rule.copy_chance(len(self.train))
            elif self.rule.uniform_parts:  # the distinct contents seen, out of all valid ones
                chance_rule = len(copies) / counts[kind]
            else:
                chance_rule = float(self.seen(kind, truth[kind].to(self.train.device)))
            accuracy = Metric(
                name=f"{kind}_accuracy",
                about=f"{pieces_named(kind)} that obey the rule",
                direction="higher is better",
                chance_rule=1.0,
                chance_cube=chances[kind],
            )
            memory = Metric(
                name=f"{kind}_memorization",
                about=f"{pieces_named(kind)} that some training sample has, anywhere in it",
                direction="higher is copying",
                chance_rule=chance_rule,
                chance_cube=len(copies) / self.rule.symbols ** sizes[kind],
            )
            found += [accuracy, memory]
        return found

    def neighbour_metrics(self) -> list[Metric]:
        of = {"": "all samples", "_valid": "valid samples", "_valid_new": "valid and new samples"}
        return [
            Metric(
                name=f"nearest_distance{suffix}",
                about=f"mean Hamming distance to the nearest training sample, over {whom}",
                direction="neither",
            )
            for suffix, whom in of.items()
        ]


def mean(values: Tensor) -> Tensor:
    """Mean as one float64 on its device; the mean over no sample is NaN, never zero."""
    return values.double().mean()


def mean_over(values: Tensor, chosen: Tensor) -> Tensor:
    """Mean of the whole numbers that are chosen, without picking them: how many they are stays on the device."""
    return (values * chosen).sum().double() / chosen.sum().double()
