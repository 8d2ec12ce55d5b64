"""Which rows of the training set a step sees: drawn at random at every step, or in shuffled epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from twoclocks.core.seeds import torch_stream


class Order(Protocol):
    """An order of rows. A CUDA graph can contain what happens in ``rows``, not what happens in ``begin``."""

    def begin(self, step: int) -> None:
        """Prepare step 1, 2, …; steps may come in any order."""

    def rows(self) -> Tensor:
        """The rows (batch,) of this step."""


@dataclass(frozen=True)
class RandomOrder:
    """Rows drawn from the step's own stream: with replacement, or ``distinct`` ones."""

    n: int
    batch: int
    generator: torch.Generator
    distinct: bool = False

    def begin(self, step: int) -> None:
        """Nothing: the stream of the step is all it needs."""

    def rows(self) -> Tensor:
        if self.distinct:  # the first of a random order, found by sorting: a CUDA graph cannot hold randperm
            return torch.rand(self.n, generator=self.generator, device=self.generator.device).argsort()[: self.batch]
        return torch.randint(self.n, (self.batch,), generator=self.generator, device=self.generator.device)


class EpochOrder:
    """Every row once per epoch, in an order that (seed, epoch) determines.

    Steps take their rows one after another. Where the batch does not divide n, a step ends one epoch and begins the
    next, so all steps have the same size and no row is left out.
    """

    def __init__(self, n: int, batch: int, seed: int, device: torch.device) -> None:
        self.n, self.batch, self.seed = n, batch, seed
        self.current = torch.zeros(batch, dtype=torch.int64, device=device)  # where a CUDA graph reads the rows
        self.shuffled: dict[int, Tensor] = {}  # the epochs of the last step

    def begin(self, step: int) -> None:
        first, end = (step - 1) * self.batch, step * self.batch
        self.shuffled = {number: self.epoch(number) for number in range(first // self.n, (end - 1) // self.n + 1)}
        starts = [(number * self.n, rows) for number, rows in self.shuffled.items()]
        torch.cat([rows[max(first - start, 0) : end - start] for start, rows in starts], out=self.current)

    def epoch(self, number: int) -> Tensor:
        """All rows (n,) in the order of epoch 0, 1, …, on the training device."""
        if number in self.shuffled:
            return self.shuffled[number]
        stream = torch_stream(self.seed, "epoch order", number)  # drawn on the CPU, so it is the same on every device
        return torch.randperm(self.n, generator=stream).to(self.current.device)

    def rows(self) -> Tensor:
        return self.current
