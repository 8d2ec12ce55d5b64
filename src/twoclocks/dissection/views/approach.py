"""How near to the training set: nearest Hamming distance of all, valid, and valid and new samples (P1 Fig. 12)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twoclocks.clocks.onset import Onset, gap_onset
from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.core.constants import CHANCE_SAMPLES
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.dissection.view import VIEWS, Arrays, Info, Probe, View, order_words, plain, when

GROUPS = ("all", "valid", "valid-new")


@dataclass(frozen=True)
class ApproachInfo(Info):
    mean: Floats  # (steps, 3): mean distance of each of GROUPS; NaN where nobody is in it
    error: Floats  # (steps, 3): standard errors
    number: Floats  # (steps, 3): samples
    chance: float  # mean distance of valid and new samples of a perfect model of the rule
    onset: Onset | None  # when valid and new samples are surely nearer than that; None: too few of them

    @property
    def memory(self) -> Onset | None:
        return self.clocks.memory if self.clocks is not None else None

    @property
    def lead(self) -> float | None:
        """How many times earlier the approach begins than copying."""
        if self.onset is None or self.memory is None:
            return None
        here, there = self.onset.estimate, self.memory.estimate
        return None if here is None or there is None else there / here

    def sentences(self) -> list[str]:
        last = self.mean[-1]
        said = [
            f"At the last evaluation a valid and new sample, rounded to symbols, differs from its nearest training "
            f"sample in {last[2]:.2f} entries on average; a perfect model of the rule: {self.chance:.2f}."
            if math.isfinite(last[2])
            else "At the last evaluation no sample is valid and new."
        ]
        if self.onset is None:
            return [*said, "Too few evaluations have valid and new samples to say when the approach begins."]
        if not self.onset.seen:
            return [*said, "No approach to the training set is certain."]
        order = order_words(self.onset, self.memory, "τ_mem")
        return [*said, f"Valid and new samples come surely nearer {when(self.onset)}{order}."]

    def numbers(self) -> dict[str, Any]:
        return {
            "chance": self.chance,
            "mean": {name: plain(self.mean[:, k]) for k, name in enumerate(GROUPS)},
            "error": {name: plain(self.error[:, k]) for k, name in enumerate(GROUPS)},
            "onset": None if self.onset is None else self.onset.as_json(),
            "lead": self.lead,
        }


@VIEWS.register("approach")
@dataclass(frozen=True, kw_only=True)
class Approach(View):
    """Distance to the nearest training sample over training."""

    reads: ClassVar[Reads] = "samples"
    interprets: ClassVar[tuple[str, ...]] = ("departure",)
    fewest: ClassVar[int] = 2
    departure: float = setting(0.02, "how much nearer than chance counts as an approach, in parts of it", at_least=0)

    def prepare(self, subject: Subject) -> Probe:
        return ApproachProbe(subject)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> ApproachInfo:
        distance, valid, new = measurements["distance"].astype(np.float64), measurements["valid"], measurements["new"]
        members = np.stack([np.ones_like(valid), valid, new], axis=2)  # (steps, noises, 3)
        number = members.sum(axis=1).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = (distance[:, :, None] * members).sum(axis=1) / number
            spread = ((distance[:, :, None] - mean[:, None]) ** 2 * members).sum(axis=1) / (number - 1)
            error = np.sqrt(spread / number)
        at, chance = np.array(steps, dtype=np.int64), float(constants["chance"][0])
        enough = number[:, 2] >= 20  # for a mean whose bounds are those of the normal distribution
        onset, clocks = None, subject.settings.clocks
        if enough.sum() >= clocks.sustain and math.isfinite(chance):
            gaps, errors = chance - mean[enough, 2], np.hypot(error[enough, 2], constants["chance"][1])
            margin = self.departure * chance
            onset = gap_onset(at[enough], gaps, errors, margin, clocks.sustain, clocks.confidence)
        return ApproachInfo(at, subject.clocks, mean, error, number, chance, onset)


@dataclass(frozen=True)
class ApproachProbe(Probe):
    subject: Subject

    def constants(self) -> Arrays:
        """Mean and standard error of the distance of new samples that the rule itself draws."""
        drawn = self.subject.rule.sample(CHANCE_SAMPLES, seed=self.subject.settings.evaluation.seed)
        distance = self.subject.evaluator.neighbours.distance(drawn.to(self.subject.device)).double()
        new = distance[distance > 0]
        if len(new) < 2:
            return {"chance": np.full(2, np.nan)}
        return {"chance": np.array([float(new.mean()), float(new.std()) / math.sqrt(len(new))])}

    def measure(self, step: int) -> Arrays:
        decoded, outcome = self.subject.judged(step)
        distance = self.subject.evaluator.neighbours.distance(decoded.symbols)
        return {
            "valid": outcome.valid.cpu().numpy(),
            "new": outcome.new.cpu().numpy(),
            "distance": distance.to("cpu").numpy().astype(np.int32),
        }
