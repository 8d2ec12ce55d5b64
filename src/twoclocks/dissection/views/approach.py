"""View ``approach``: Hamming distance of samples to the nearest training sample over training (P1 Fig. 12)."""

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
from twoclocks.dissection.view import VIEWS, Arrays, Info, Probe, View, confidence_words, order_words, plain, when

GROUPS = ("all", "valid", "valid-new")
FEWEST = 20  # samples for a mean whose error bounds may be those of the normal distribution


@dataclass(frozen=True)
class ApproachInfo(Info):
    mean: Floats  # (steps, 3): mean distance of each of GROUPS; NaN where a group is empty
    error: Floats  # (steps, 3): standard errors
    number: Floats  # (steps, 3): samples
    chance: float  # mean distance of valid and new samples of a perfect model of the rule
    onset: Onset | None  # when valid and new samples are nearer than that; None: too few of them
    confidence: float = 0.95  # of the onset; 0: no bounds

    @property
    def memory(self) -> Onset | None:
        return self.clocks.memory if self.clocks is not None else None

    @property
    def lead(self) -> float | None:
        """τ_mem divided by the step at which the approach begins."""
        if self.onset is None or self.memory is None:
            return None
        here, there = self.onset.estimate, self.memory.estimate
        return None if here is None or there is None else there / here

    def sentences(self) -> list[str]:
        last = self.mean[-1]
        first = (
            f"At the last evaluation a valid and new sample differs from its nearest training sample in "
            f"{last[2]:.2f} entries on average; for a perfect model of the rule it would be {self.chance:.2f}."
            if math.isfinite(last[2])
            else "At the last evaluation no sample is valid and new."
        )
        sure = confidence_words(self.confidence)
        if self.onset is None:
            return [first, "Too few evaluations have valid and new samples to find when the approach begins."]
        if not self.onset.seen:
            return [first, f"Valid and new samples do not come nearer to the training set than chance{sure}."]
        order = order_words(self.onset, self.memory, "τ_mem")
        return [first, f"Valid and new samples come nearer than chance{sure} {when(self.onset)}{order}."]

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
    departure: float = setting(0.02, "how much nearer than chance counts as an approach, as a fraction", at_least=0)

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
        enough = number[:, 2] >= FEWEST
        onset, clocks = None, subject.settings.clocks
        if enough.sum() >= clocks.sustain and math.isfinite(chance):
            gaps, errors = chance - mean[enough, 2], np.hypot(error[enough, 2], constants["chance"][1])
            margin = self.departure * chance
            onset = gap_onset(at[enough], gaps, errors, margin, clocks.sustain, clocks.confidence)
        return ApproachInfo(at, subject.clocks, mean, error, number, chance, onset, clocks.confidence)


@dataclass(frozen=True)
class ApproachProbe(Probe):
    subject: Subject

    def constants(self) -> Arrays:
        """Mean and standard error of the distance for new samples of the rule itself."""
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
