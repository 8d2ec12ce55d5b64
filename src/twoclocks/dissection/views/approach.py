"""View ``approach``: distance of samples to the nearest training sample over training (P1 Fig. 12).

It is the Hamming distance. Of images it is the root mean square over pixels from −1 to 1, and chance is that of
held-out images.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from twoclocks.clocks.onset import Onset, gap_onset
from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.core.constants import CHANCE_SAMPLES
from twoclocks.dissection.image_anchors import held_out_of
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.dissection.view import VIEWS, Arrays, Info, Probe, View, confidence_words, order_words, plain, when
from twoclocks.evaluation.image_neighbours import ImageNeighbours

GROUPS = ("all", "valid", "valid-new")
FEWEST = 20  # samples for a mean whose error bounds may be those of the normal distribution


@dataclass(frozen=True)
class ApproachInfo(Info):
    mean: Floats  # (steps, 3): mean distance of each of GROUPS; NaN where a group is empty
    error: Floats  # (steps, 3): standard errors
    number: Floats  # (steps, 3): samples
    chance: float  # mean distance of valid and new samples of a perfect model of the rule, or of held-out images
    onset: Onset | None  # when valid and new samples are nearer than that; None: too few of them
    confidence: float = 0.95  # of the onset; 0: no bounds
    images: bool = False  # then nothing is invalid, and distances are root mean squares

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
        last, kind = self.mean[-1, 2], "new" if self.images else "valid and new"
        if not math.isfinite(last):
            first = f"At the last evaluation no sample is {kind}."
        elif self.images:
            first = (
                f"At the last evaluation a new sample lies at a distance of {last:.3f} from its nearest training image "
                f"(root mean square over pixels from −1 to 1, mean over samples); held-out images: {self.chance:.3f}."
            )
        else:
            first = (
                f"At the last evaluation a valid and new sample differs from its nearest training sample in "
                f"{last:.2f} entries on average; for a perfect model of the rule it would be {self.chance:.2f}."
            )
        sure, chance = confidence_words(self.confidence), "held-out images" if self.images else "chance"
        if self.onset is None:
            return [first, f"Too few evaluations have {kind} samples to find when the approach begins."]
        samples = f"{kind} samples".capitalize()
        if not self.onset.seen:
            return [first, f"{samples} do not come nearer to the training set than {chance}{sure}."]
        order = order_words(self.onset, self.memory, "τ_mem")
        return [first, f"{samples} come nearer than {chance}{sure} {when(self.onset)}{order}."]

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
        return ApproachInfo(
            at, subject.clocks, mean, error, number, chance, onset, clocks.confidence, subject.rule.is_image
        )


@dataclass(frozen=True)
class ApproachProbe(Probe):
    subject: Subject

    def distance(self, rows: Tensor) -> Tensor:
        """Distance (n,) of rows (n, *shape) of symbols or pixels to the nearest training sample."""
        if self.subject.rule.is_image:
            return ImageNeighbours(self.subject.evaluator.train).two_nearest(rows).distance[:, 0]
        return self.subject.evaluator.neighbours.distance(rows)

    def constants(self) -> Arrays:
        """Mean and standard error of the distance for new samples of the rule itself, or for held-out images."""
        if self.subject.rule.is_image:
            drawn = held_out_of(self.subject)
        else:
            drawn = self.subject.rule.sample(CHANCE_SAMPLES, seed=self.subject.settings.evaluation.seed)
        distance = self.distance(drawn.to(self.subject.device)).double()
        new = distance[distance > 0]
        if len(new) < 2:
            return {"chance": np.full(2, np.nan)}
        return {"chance": np.array([float(new.mean()), float(new.std()) / math.sqrt(len(new))])}

    def measure(self, step: int) -> Arrays:
        decoded, outcome = self.subject.judged(step)
        distance = self.distance(decoded.symbols).cpu().numpy()
        return {
            "valid": outcome.valid.cpu().numpy(),
            "new": outcome.new.cpu().numpy(),
            "distance": distance.astype(np.float32 if self.subject.rule.is_image else np.int32),
        }
