"""Copies by a ratio of distances: a sample is much nearer to one training row than to the others."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from twoclocks.core.errors import UserError
from twoclocks.core.lazy import torch
from twoclocks.monitor.criteria.base import CRITERIA, Criterion, Matcher, Matches
from twoclocks.monitor.inputs import checked_integer, checked_number
from twoclocks.monitor.nearest import Nearest
from twoclocks.monitor.training_set import TrainingSet

PUBLISHED = 1 / 3  # the threshold of the papers on memorization in diffusion models
SUSPICIOUS = 0.1  # a calibrated threshold below this misses copies with little noise
FALSE_COPIES = 0.01  # part of the held-out samples that a calibrated threshold counts as copies, at most

log = logging.getLogger("twoclocks")


@CRITERIA.register("ratio")
@dataclass(frozen=True)
class Ratio(Criterion):
    """A copy is much nearer (Euclidean) to one training row than to the next ones: ratio of distances below ``below``.

    ``next_rows``: the nearest distance is divided by the mean of so many next ones (default 1, the second nearest).
    ``below=None`` sets the threshold with half of the held-out samples, so that 1% of such samples count as copies;
    with fewer than 200 of them it is at most 1/3, and without them 1/3, as in the papers. Near-duplicates in the
    training set count as one row: otherwise the second neighbour would be as near as the first.
    """

    below: float | None = PUBLISHED
    next_rows: int = 1
    about: ClassVar[str] = "its distance to the nearest training row is below a third of that to the second nearest"
    data: ClassVar[str] = "images and other floats"
    uses_groups: ClassVar[bool] = True

    @property
    def name(self) -> str:
        others = "" if self.next_rows == 1 else f" to the mean of the {self.next_rows} next"
        return f"copies by a distance ratio{others} below {self.threshold:.3g}"

    @property
    def threshold(self) -> float:
        return PUBLISHED if self.below is None else self.below

    def __post_init__(self) -> None:
        if self.below is not None:
            checked_number("below", self.below, 0, 1 + 1e-12, "use a number above 0, at most 1, or None")
        checked_integer("next_rows", self.next_rows, 1)

    def calibrated(self, train: TrainingSet, held_out: Any | None) -> tuple[Criterion, Any | None]:
        """With a threshold from every second held-out sample; the others are left for the chance level."""
        if self.below is not None or held_out is None:
            return replace(self, below=self.threshold), held_out
        first, second = held_out[::2], held_out[1::2]
        if len(second) == 0:
            raise UserError(f"held_out: {len(held_out)} sample is too few to set the threshold of the ratio; give more")
        ratios = np.sort(self.matcher(train)(first).distances)
        rank = int(FALSE_COPIES * (len(first) + 1))
        # Below rank 1 there are too few samples for the quantile: the least ratio would be too high.
        below = ratios[rank - 1] if rank else min(PUBLISHED, ratios[0])
        if below < SUSPICIOUS:
            what = f"held-out samples are so near to training rows that the threshold of the ratio is {below:.2g}"
            log.warning(f"held_out: {what}, and few copies will be found; are some of them training rows?")
        return replace(self, below=float(np.clip(below, 1e-6, 1.0))), second

    def matcher(self, train: TrainingSet) -> Matcher:
        groups = train.groups
        number = int(groups.max()) + 1
        if number < 1 + self.next_rows:
            need = f"the ratio needs a nearest and {self.next_rows} next ones"
            raise UserError(f"train: {number} different rows (near-duplicates count once); {need}")
        if number < len(train):
            alike = int((np.bincount(groups)[groups] > 1).sum())
            log.warning(
                f"train: {alike} of {len(train)} rows have near-duplicates; each group of them counts as one row"
            )
        nearest = Nearest(train.values, groups, train.symmetries)

        def match(samples: Any, device: str = "cpu") -> Matches:
            found = nearest.search(torch.as_tensor(samples).to(device), k=1 + self.next_rows)
            others = found.distances[:, 1:].mean(1)
            ratios = np.divide(found.distances[:, 0], others, out=np.zeros(len(others)), where=others > 0)
            return Matches(ratios < self.threshold, found.rows[:, 0], ratios)

        return match
