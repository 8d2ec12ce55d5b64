"""Distances between two models, on samples from the same noise or on probabilities of tokens, and when they rise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional

from twoclocks.clocks.onset import Onset, gap_onset
from twoclocks.clocks.settings import ClockSettings
from twoclocks.core.arrays import Floats
from twoclocks.core.rows import row_keys
from twoclocks.dissection.bootstrap import band
from twoclocks.dissection.view import plain

DEPARTURE = 0.1  # rise that counts as parting, as a fraction of the difference between chance and the smallest distance
LEAST = 0.01  # rise that counts as parting where that difference is smaller than it
RESAMPLES = 400


def cosines(a: Tensor, b: Tensor) -> tuple[Tensor, float]:
    """Cosine similarity (n,) of row i of both (n, …), and the chance level: its mean over pairs of different rows.

    >>> import torch
    >>> both = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    >>> cosines(both, -both)
    (tensor([-1.0000, -1.0000], dtype=torch.float64), 0.0)
    """
    left, right = (functional.normalize(rows.flatten(1).double(), dim=1) for rows in (a, b))
    paired = (left * right).sum(dim=1)
    return paired, unpaired_mean(float(left.sum(dim=0) @ right.sum(dim=0)), float(paired.sum()), len(paired))


def identical(a: Tensor, b: Tensor, symbols: int) -> tuple[npt.NDArray[np.bool_], float]:
    """Whether row i of both (n, …) is the same, and the chance level: the fraction among pairs of different rows."""
    left, right = row_keys(a, symbols), row_keys(b, symbols)
    same = left == right
    kinds, place = np.unique(np.concatenate([left, right]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(kinds)) for part in np.split(place, 2)]
    return same, unpaired_mean(float(counts[0] @ counts[1]), float(same.sum()), len(same))


def unpaired_mean(every: float, paired: float, rows: int) -> float:
    """The mean over pairs (i, j) with i ≠ j, from the sum over all pairs and the sum over i = j."""
    return (every - paired) / (rows * (rows - 1))


def hellinger(p: Tensor, q: Tensor) -> Tensor:
    """Hellinger distance, H² = ½ Σ (√p − √q)², of probabilities along the last axis.

    >>> import torch
    >>> hellinger(torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    tensor([1., 0.])
    """
    return ((p.sqrt() - q.sqrt()).square().sum(dim=-1) / 2).sqrt()


class MeanInterval(NamedTuple):
    """A mean over some evaluations with its 95% interval by bootstrap of the rows."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """One distance between two models over training, and when it rises."""

    steps: npt.NDArray[np.int64]
    mean: Floats  # (steps,)
    low: Floats  # 95% interval by bootstrap of the rows
    high: Floats
    chance: Floats  # (steps,): the same for unrelated rows
    window: MeanInterval | None  # while both windows are open
    after: MeanInterval | None  # after memory has begun in both
    closest: tuple[int, int]  # first and last of the consecutive steps with the smallest distance
    parting: Onset | None  # when the distance rises above that; None: too few evaluations

    def numbers(self) -> dict[str, Any]:
        return {
            "steps": self.steps.tolist(),
            "mean": plain(self.mean),
            "low": plain(self.low),
            "high": plain(self.high),
            "chance": plain(self.chance),
            "window": None if self.window is None else self.window._asdict(),
            "after": None if self.after is None else self.after._asdict(),
            "closest": list(self.closest),
            "parting": None if self.parting is None else self.parting.as_json(),
        }


@dataclass(frozen=True)
class SharedTimes:
    """Steps at which the clocks of both models allow the same statement about both."""

    window: tuple[float, float] | None  # first and last step at which both windows are open
    learned: float  # the first step at which both have learned some part of the rule; 0 where that is not known
    before: float  # the last step at which memory has begun in neither model; inf where it never begins
    after: float  # the first step at which memory has begun in both; inf where it does not


def agreement_of(
    steps: npt.NDArray[np.int64], distance: Floats, chance: Floats, shared: SharedTimes, clocks: ClockSettings
) -> Agreement:
    """Summarise distances (steps, rows), where a row is the same noise or the same string at every step."""
    mean = distance.mean(axis=1)
    low, high = band(distance, 1, 2.5, 97.5, RESAMPLES)
    inside = np.zeros(len(steps), dtype=bool)
    if shared.window is not None:
        inside = (steps >= shared.window[0]) & (steps <= shared.window[1])
    # Before anything is learned, models with the same initial weights agree by construction.
    early = inside if inside.any() else (steps > 0) & (steps >= shared.learned) & (steps <= shared.before)
    closest = closest_streak(mean, early if early.any() else np.ones_like(inside), clocks.sustain)
    return Agreement(
        steps=steps,
        mean=mean,
        low=low,
        high=high,
        chance=chance,
        window=mean_interval(distance[inside]),
        after=mean_interval(distance[steps >= shared.after]),
        closest=(int(steps[closest[0]]), int(steps[closest[-1]])),
        parting=parting(steps, distance, chance, closest, clocks),
    )


def closest_streak(mean: Floats, among: npt.NDArray[np.bool_], length: int) -> npt.NDArray[np.intp]:
    """Indices of the ``length`` consecutive evaluations with the smallest mean distance; all where there are fewer.

    A single evaluation would be the luckiest of many, since distances fluctuate from one evaluation to the next.
    """
    places = np.flatnonzero(among)
    if len(places) <= length:
        return places
    streaks = np.lib.stride_tricks.sliding_window_view(mean[places], length).mean(axis=1)
    begin = int(streaks.argmin())
    return places[begin : begin + length]


def parting(
    steps: npt.NDArray[np.int64],
    distance: Floats,
    chance: Floats,
    closest: npt.NDArray[np.intp],
    clocks: ClockSettings,
) -> Onset | None:
    """When a distance (steps, rows) rises above that of the closest evaluations and stays there.

    Differences are taken row by row, so that differences between rows that persist do not add to the error. The onset
    holds with the confidence of the clock settings.
    """
    later = slice(int(closest[-1]), None)
    if len(steps[later]) <= clocks.sustain or distance.shape[1] < 2:
        return None
    level = distance[closest].mean(axis=0)  # (rows,)
    rise = distance[later] - level
    errors = rise.std(axis=1, ddof=1) / math.sqrt(rise.shape[1])
    threshold = max(LEAST, DEPARTURE * float(chance[closest].mean() - level.mean()))
    return gap_onset(steps[later], rise.mean(axis=1), errors, threshold, clocks.sustain, clocks.confidence)


def mean_interval(distance: Floats) -> MeanInterval | None:
    """The mean of distances (steps, rows) with its interval; rows are independent, evaluations of one row are not."""
    if not len(distance):
        return None
    rows = distance.mean(axis=0)
    low, high = band(rows, 0, 2.5, 97.5, RESAMPLES)
    return MeanInterval(float(rows.mean()), float(low), float(high))
