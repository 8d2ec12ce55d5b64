"""How τ depends on the batch size: a power law over runs that differ in their batch alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from twoclocks.analysis.groups import group_labels, grouped
from twoclocks.analysis.laws import NAMES, Clock, read_points
from twoclocks.clocks.collapse import Collapse, collapse
from twoclocks.clocks.onset import Onset
from twoclocks.core.errors import UserError
from twoclocks.runs.load import Run

FEWEST = 3  # batch sizes needed for a power law
AROUND = 0.25  # the whole interval must lie within this distance of −1 or 0

Answer = Literal["samples", "steps", "neither"]


@dataclass(frozen=True)
class Pace:
    """Bounds of the local power between two neighbouring batch sizes, from the intervals of their onsets."""

    batches: tuple[int, int]
    low: float
    high: float

    def __str__(self) -> str:
        first, second = self.batches
        return f"{self.low:.2f} to {self.high:.2f} from batch {first} to {second}"


@dataclass(frozen=True)
class BatchLaw:
    """τ ∝ batch^power at a fixed number of samples N."""

    clock: Clock
    label: str
    n: int
    batches: tuple[int, ...]
    onsets: tuple[Onset, ...]
    collapse: Collapse

    @property
    def answer(self) -> Answer:
        """Which quantity sets τ: samples seen, steps·batch/N (power −1, P1), or steps (power 0, P2)."""
        low, high = self.collapse.batch_power_ci
        if low >= -1 - AROUND and high <= -1 + AROUND:
            return "samples"
        return "steps" if low >= -AROUND and high <= AROUND else "neither"

    @property
    def paces(self) -> list[Pace]:
        """Local powers between neighbouring batch sizes with observed onsets; under a power law they are equal."""
        seen = [pair for pair in zip(self.batches, self.onsets, strict=True) if pair[1].status == "observed"]
        found = []
        for (first, early), (second, late) in pairwise(seen):
            span = math.log(second / first)
            low, high = math.log(late.lower / early.upper) / span, math.log(late.upper / early.lower) / span
            found.append(Pace((first, second), low, high))
        return found

    def sentence(self) -> str:
        """The power with its interval, and what it means."""
        low, high = self.collapse.batch_power_ci
        power = f"{NAMES[self.clock]} ∝ batch^{self.collapse.batch_power:z.2f} (95%: {low:z.2f} to {high:z.2f})"
        answer = {
            "samples": "it depends on samples seen, steps·batch/N, as in P1",
            "steps": "it depends on steps, whatever the batch, as in P2",
            "neither": "it depends neither on samples seen alone (−1, P1) nor on steps alone (0, P2)",
        }[self.answer]
        paces = self.paces
        local = f"; the local power is {paces[0]}, and {paces[-1]}" if len(paces) > 1 else ""
        return f"{power}: {answer}{local}"

    def as_json(self) -> dict[str, Any]:
        return {
            "clock": self.clock,
            "n": self.n,
            "answer": self.answer,
            **self.collapse.as_json(),
            "onsets": {str(b): onset.as_json() for b, onset in zip(self.batches, self.onsets, strict=True)},
            "paces": [{"batches": list(one.batches), "power": [one.low, one.high]} for one in self.paces],
        }


def batch_law(runs: Sequence[Run], clock: Clock = "tau_mem") -> BatchLaw:
    """The law of runs that differ in batch, seeds and length only."""
    points, _ = read_points(runs, clock)
    settings = [point.run.settings for point in points]
    kinds = set(group_labels(settings, besides={"training.batch"}))
    if len(kinds) > 1 or len({point.n for point in points}) > 1:
        raise UserError("runs: they differ in more than training.batch; compare those of one kind and size")
    points = sorted(points, key=lambda point: point.batch)
    batches, onsets = [point.batch for point in points], [point.onset for point in points]
    if len(set(batches)) < FEWEST:
        raise UserError(f"training.batch: {sorted(set(batches))} are too few for a power law; give at least {FEWEST}")
    found = collapse([point.n for point in points], batches, onsets)
    first = points[0]
    return BatchLaw(clock, first.run.settings.name, first.n, tuple(batches), tuple(onsets), found)


def batch_laws(runs: Sequence[Run], clock: Clock = "tau_mem") -> list[BatchLaw]:
    """One law per set of runs that differ in nothing but their batch, where there are enough."""
    return list(found_batch_laws(runs, clock))


def found_batch_laws(runs: Sequence[Run], clock: Clock = "tau_mem") -> Iterator[BatchLaw]:
    """The laws of ``batch_laws`` one by one, since each takes a tenth of a second."""
    labels = group_labels([run.settings for run in runs], besides={"training.batch"})
    groups = grouped(zip(runs, labels, strict=True), lambda pair: (pair[1], pair[0].settings.data.n))
    for pairs in groups.values():
        members = [run for run, _ in pairs]
        if len({run.settings.training.batch for run in members}) >= FEWEST:
            try:
                yield batch_law(members, clock)
            except UserError:
                continue  # no onset was observed: there is nothing to draw
