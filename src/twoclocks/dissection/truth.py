"""Statistics of strings drawn from the grammar itself: usage of productions, its covariance, and the sampling noise.

Means and covariances are exact. The scatter of a covariance has no short formula (counts are rare and depend on each
other), so it is estimated from sets of true strings of the same size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from twoclocks.core.arrays import Floats

FEWEST = 32  # strings below which nothing is tested
Draw = Callable[[int, int], Tensor]  # number of strings and of the set -> their counts (n, productions)


@dataclass(frozen=True)
class Truth:
    """Statistics of strings that a perfect model would generate."""

    mean: Floats  # (productions,): how often one string uses each
    covariance: Floats  # (productions, productions)
    noise: Floats  # the same: standard deviation of what one string adds to that covariance; inf: no noise
    sizes: Floats  # (sizes,): numbers of strings in a set
    reference: Floats  # (sizes, 2, sets): both ``summary`` numbers of sets of true strings, sorted along the last axis

    def fit(self, usage: Floats, number: float, layer: slice) -> tuple[float, int]:
        """χ² of the mean usage (productions,) of ``number`` strings in a layer, and its degrees of freedom.

        It uses the exact covariance between productions, since those of one string depend on each other; the mean of
        χ² is its degrees of freedom for any number of strings.
        """
        values, vectors = np.linalg.eigh(self.covariance[layer, layer])
        free = values > 1e-9 * max(values.max(), 1e-30)  # the others are fixed by the grammar, as is the sum of all
        along = (usage - self.mean)[layer] @ vectors[:, free]
        return float(number * (along**2 / values[free]).sum()), int(free.sum())

    def deviations(self, counts: Tensor) -> Floats:
        """Covariance of counts (n, productions) minus the true one, in units of its sampling noise."""
        noise, true = (torch.from_numpy(table).to(counts) for table in (self.noise, self.covariance))
        found = (covariance_of(counts) - true) * math.sqrt(len(counts)) / noise
        return found.double().cpu().numpy()

    def summary(self, deviations: Floats) -> tuple[float, float]:
        """Root mean square and largest of the deviations, each pair of productions once."""
        seen = np.abs(deviations)[np.triu(np.isfinite(self.noise))]
        return float(np.sqrt((seen**2).mean())), float(seen.max())

    def reference_at(self, number: float) -> Floats:
        """``reference`` of sets of another size (2, sets), interpolated between the neighbouring sizes."""
        at = float(np.interp(math.log(number), np.log(self.sizes), np.arange(len(self.sizes))))
        low = int(at)
        high = min(low + 1, len(self.sizes) - 1)
        lower, upper = self.reference[low], self.reference[high]
        found: Floats = lower + (at - low) * (upper - lower)
        return found


def covariance_of(counts: Tensor) -> Tensor:
    """Sample covariance of the counts (n, productions)."""
    centred = counts - counts.mean(dim=0)
    return centred.T @ centred / (len(counts) - 1)


def without(moments: tuple[Floats, Floats], total: int, counts: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance over ``total`` strings without those whose counts (n, productions) are given."""
    mean, covariance = moments
    left = total - len(counts)
    second = covariance + np.outer(mean, mean)
    mean = (total / left) * mean - counts.sum(axis=0) / left
    return mean, (total / left) * second - counts.T @ counts / left - np.outer(mean, mean)


def truth_of(moments: tuple[Floats, Floats], draw: Draw, most: int, sets: int) -> Truth:
    """Estimate the noise from ``sets`` sets of ``most`` strings, and the reference from as many other sets."""
    mean, covariance = moments
    squares = torch.zeros(covariance.shape, dtype=torch.float64)
    for number in range(sets):
        counts = draw(most, number)
        centred = (counts - torch.from_numpy(mean).to(counts)) ** 2
        squares += (centred.T @ centred).double().cpu()
    pool = sets * most
    # A pair may be so rare that no string of the pool has it; its variance is then about its known probability.
    together = (covariance + np.outer(mean, mean)).clip(min=0)
    variance = np.maximum(squares.numpy() / pool - covariance**2, np.minimum(together, 1 / pool))
    noise = np.where(variance > 1e-12, np.sqrt(variance.clip(min=0)), np.inf)
    sizes = sorted({max(FEWEST, most >> k) for k in range(most.bit_length())})
    truth = Truth(mean, covariance, noise, np.array(sizes, dtype=np.float64), np.zeros((len(sizes), 2, sets)))
    for number in range(sets):
        counts = draw(max(sizes), sets + number)
        for k, size in enumerate(sizes):
            truth.reference[k, :, number] = truth.summary(truth.deviations(counts[:size]))
    truth.reference.sort(axis=2)
    return truth
