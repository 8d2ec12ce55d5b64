"""How far two models agree: on samples from the same noise, on the probabilities of tokens; and when they part."""

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

DEPARTURE = 0.1  # rise that counts as parting, in parts of the way from the closest to what chance gives
LEAST = 0.01  # rise that counts as parting where chance gives nothing else than the closest
RESAMPLES = 400


def cosines(a: Tensor, b: Tensor) -> tuple[Tensor, float]:
    """Cosine similarity (n,) of row i of both (n, …), and its mean over all pairs of different rows: chance.

    >>> import torch
    >>> both = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    >>> cosines(both, -both)
    (tensor([-1.0000, -1.0000], dtype=torch.float64), 0.0)
    """
    left, right = (functional.normalize(rows.flatten(1).double(), dim=1) for rows in (a, b))
    paired = (left * right).sum(dim=1)
    return paired, among_others(float(left.sum(dim=0) @ right.sum(dim=0)), float(paired.sum()), len(paired))


def identical(a: Tensor, b: Tensor, symbols: int) -> tuple[npt.NDArray[np.bool_], float]:
    """Whether row i of both (n, …) is the same, and how many of all pairs of different rows are: chance."""
    left, right = row_keys(a, symbols), row_keys(b, symbols)
    same = left == right
    kinds, place = np.unique(np.concatenate([left, right]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(kinds)) for part in np.split(place, 2)]
    return same, among_others(float(counts[0] @ counts[1]), float(same.sum()), len(same))


def among_others(every: float, paired: float, rows: int) -> float:
    """The mean over pairs of different rows, from the sum over all pairs and that over equal rows."""
    return (every - paired) / (rows * (rows - 1))


def hellinger(p: Tensor, q: Tensor) -> Tensor:
    """Hellinger distance, H² = ½ Σ (√p − √q)², of probabilities along the last axis.

    >>> import torch
    >>> hellinger(torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    tensor([1., 0.])
    """
    return ((p.sqrt() - q.sqrt()).square().sum(dim=-1) / 2).sqrt()


class Span(NamedTuple):
    """A mean over some evaluations with the ends of its 95% interval, rows being the units."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """One distance between two models over training."""

    steps: npt.NDArray[np.int64]
    mean: Floats  # (steps,)
    low: Floats  # 95% interval by bootstrap of the rows
    high: Floats
    chance: Floats  # (steps,): of rows that have nothing to do with each other
    window: Span | None  # where both windows are open
    after: Span | None  # after memory has begun in both
    closest: tuple[int, int]  # first and last of the steps in a row at which they are nearest, before they part
    parting: Onset | None  # when they are surely farther apart than then; None: too few evaluations

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
class SharedWindow:
    """What the clocks of both models say about the steps."""

    window: tuple[float, float] | None  # in which both windows are open
    learned: float  # the first step at which each has learned some part of the rule; 0 where that is not known
    before: float  # the last step at which memory has begun in neither; inf where it begins in neither
    after: float  # the first step at which it has begun in both; inf where it does not


def agreement_of(
    steps: npt.NDArray[np.int64], distance: Floats, chance: Floats, shared: SharedWindow, clocks: ClockSettings
) -> Agreement:
    """What distances (steps, rows) say, row by row of the same noise or the same string at every step."""
    mean = distance.mean(axis=1)
    low, high = band(distance, 1, 2.5, 97.5, RESAMPLES)
    inside = np.zeros(len(steps), dtype=bool)
    if shared.window is not None:
        inside = (steps >= shared.window[0]) & (steps <= shared.window[1])
    # Before anything is learned, models that began alike agree by construction.
    early = inside if inside.any() else (steps > 0) & (steps >= shared.learned) & (steps <= shared.before)
    closest = closest_streak(mean, early if early.any() else np.ones_like(inside), clocks.sustain)
    return Agreement(
        steps=steps,
        mean=mean,
        low=low,
        high=high,
        chance=chance,
        window=span(distance[inside]),
        after=span(distance[steps >= shared.after]),
        closest=(int(steps[closest[0]]), int(steps[closest[-1]])),
        parting=parting(steps, distance, chance, closest, clocks),
    )


def closest_streak(mean: Floats, among: npt.NDArray[np.bool_], length: int) -> npt.NDArray[np.intp]:
    """Which evaluations in a row, so many of those, have the smallest mean distance; all where they are fewer.

    A single one would be the luckiest of many: models waver from one evaluation to the next.
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
    """When a distance (steps, rows) has surely risen above that of the closest evaluations, and stays there.

    Differences are taken row by row: what makes a row hard for both models at all steps is no part of the error.
    """
    later = slice(int(closest[-1]), None)
    if len(steps[later]) <= clocks.sustain or distance.shape[1] < 2:
        return None
    level = distance[closest].mean(axis=0)  # (rows,)
    rise = distance[later] - level
    errors = rise.std(axis=1, ddof=1) / math.sqrt(rise.shape[1])
    threshold = max(LEAST, DEPARTURE * float(chance[closest].mean() - level.mean()))
    return gap_onset(steps[later], rise.mean(axis=1), errors, threshold, clocks.sustain, clocks.confidence)


def span(distance: Floats) -> Span | None:
    """The mean over evaluations and rows; evaluations of one row are not independent, rows are."""
    if not len(distance):
        return None
    rows = distance.mean(axis=0)
    low, high = band(rows, 0, 2.5, 97.5, RESAMPLES)
    return Span(float(rows.mean()), float(low), float(high))
