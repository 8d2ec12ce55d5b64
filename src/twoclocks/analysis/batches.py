"""How τ depends on the batch size: a power law over runs that differ in their batch alone.

What the papers show is less than this asks. P1 draws its time steps·batch/N for runs of one batch; P2 shows that the
batch does not matter for one hidden layer at a fixed noise level σ. A sweep over the batch says which holds where.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from twoclocks.analysis.groups import group_labels, grouped
from twoclocks.analysis.laws import NAMES, Clock, chosen_onset, read_points
from twoclocks.clocks.collapse import Collapse, collapse
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks
from twoclocks.core.errors import UserError
from twoclocks.runs.load import Run

FEWEST = 3  # batch sizes needed for a power law
AROUND = 0.25  # the whole interval must lie within this distance of −1 or 0

Answer = Literal["samples", "steps", "neither", "undecided"]
MEANINGS: dict[Answer, str] = {
    "samples": "it depends on samples seen, steps·batch/N, P1's time, which P1 shows at fixed batch",
    "steps": "it depends on steps, whatever the batch, as P2 shows for one hidden layer at fixed σ",
    "neither": (
        "it depends neither on samples seen alone (−1, P1's time steps·batch/N) nor on steps alone "
        "(0, as P2 shows for one hidden layer at fixed σ)"
    ),
    "undecided": (
        "undecided; −1 would be samples seen (P1's time steps·batch/N), 0 steps alone "
        "(as P2 shows for one hidden layer at fixed σ)"
    ),
}


@dataclass(frozen=True)
class Pace:
    """Bounds of the local power between two neighbouring batch sizes, from the (median) intervals of their onsets."""

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
    left_out: tuple[str, ...] = ()  # runs that are no fair comparison, each with the reason

    @property
    def answer(self) -> Answer:
        """Which quantity sets τ: samples seen, steps·batch/N (power −1), or steps (power 0).

        undecided: the interval reaches into −1 ± 0.25 or ±0.25, but also out of it. neither: it lies outside of both.
        """
        low, high = self.collapse.batch_power_ci
        if low >= -1 - AROUND and high <= -1 + AROUND:
            return "samples"
        if low >= -AROUND and high <= AROUND:
            return "steps"
        reaches = [high >= centre - AROUND and low <= centre + AROUND for centre in (-1.0, 0.0)]
        return "undecided" if any(reaches) else "neither"

    @property
    def paces(self) -> list[Pace]:
        """Local powers between neighbouring batch sizes with observed onsets; under a power law they are equal."""
        seen = [
            (batch, statistics.median(one.lower for one in same), statistics.median(one.upper for one in same))
            for batch, same in self.by_batch.items()
            if all(one.status == "observed" and one.lower > 0 for one in same)
        ]
        found = []
        for (first, *early), (second, *late) in pairwise(seen):
            span = math.log(second / first)
            low, high = math.log(late[0] / early[1]) / span, math.log(late[1] / early[0]) / span
            found.append(Pace((first, second), low, high))
        return found

    @property
    def by_batch(self) -> dict[int, list[Onset]]:
        """The onsets of all seeds by batch size."""
        pairs = grouped(zip(self.batches, self.onsets, strict=True), lambda pair: pair[0])
        return {batch: [one for _, one in same] for batch, same in pairs.items()}

    def sentence(self) -> str:
        """The power with its interval, and what it means."""
        low, high = self.collapse.batch_power_ci
        power = f"{NAMES[self.clock]} ∝ batch^{self.collapse.batch_power:z.2f} (95%: {low:z.2f} to {high:z.2f})"
        paces = self.paces
        local = f"; the local power is {paces[0]}, and {paces[-1]}" if len(paces) > 1 else ""
        left_out = f"; left out: {', '.join(self.left_out)}" if self.left_out else ""
        return f"{power}: {MEANINGS[self.answer]}{local}{left_out}"

    def as_json(self) -> dict[str, Any]:
        return {
            "clock": self.clock,
            "n": self.n,
            "answer": self.answer,
            "left_out": list(self.left_out),
            **self.collapse.as_json(),
            "onsets": {str(batch): [one.as_json() for one in same] for batch, same in self.by_batch.items()},
            "paces": [{"batches": list(one.batches), "power": [one.low, one.high]} for one in self.paces],
        }


def own_clocks(run: Run) -> Clocks:
    """The clocks of a run by its own settings."""
    return run.clocks(changes=False)


def batch_law(runs: Sequence[Run], clock: Clock = "tau_mem", read: Callable[[Run], Clocks] = own_clocks) -> BatchLaw:
    """The law of runs that differ in batch, seeds and length only; those that are no fair comparison are left out.

    ``read`` gives the clocks of a run, where others than its own are asked for.
    """
    points, _ = read_points(runs, clock)
    kinds = set(group_labels([point.run.settings for point in points], besides={"training.batch"}))
    if len(kinds) > 1 or len({point.n for point in points}) > 1:
        raise UserError("runs: they differ in more than training.batch; compare those of one kind and size")
    members = [(point.run, read(point.run)) for point in sorted(points, key=lambda point: point.batch)]
    reasons = [unfair(run, clocks) for run, clocks in members]
    left_out = [
        f"batch {run.settings.training.batch:,} ({why})" for (run, _), why in zip(members, reasons, strict=True) if why
    ]
    fair = [(run, clocks) for (run, clocks), why in zip(members, reasons, strict=True) if why is None]
    batches = [run.settings.training.batch for run, _ in fair]
    onsets = [chosen_onset(clocks, clock, run) for run, clocks in fair]
    if len(set(batches)) < FEWEST:
        without = f" without {', '.join(dict.fromkeys(left_out))}" if left_out else ""
        fix = f"give at least {FEWEST} with N ≥ batch and the rule learned before τ_mem"
        raise UserError(f"training.batch: {sorted(set(batches))} are too few for a power law{without}; {fix}")
    first = fair[0][0].settings
    found = collapse([first.data.n] * len(fair), batches, onsets)
    shown = tuple(dict.fromkeys(left_out))
    return BatchLaw(clock, first.name, first.data.n, tuple(batches), tuple(onsets), found, shown)


def unfair(run: Run, clocks: Clocks) -> str | None:
    """Why a run with these clocks says nothing about the batch, or None.

    A batch larger than N holds samples several times: a larger one shows the model hardly more. A model that
    copies before it has learned the rule does something else than P1's models; where everything is valid (the rule
    ``free``), there is no rule to learn.
    """
    if run.settings.data.n < run.settings.training.batch:
        return f"N = {run.settings.data.n:,} is smaller"
    if run.derived["validity_chance"] >= 1:
        return None
    if not clocks.rule.seen:
        return "the rule is not learned"
    return None if clocks.rule.upper <= clocks.memory.lower else "the rule is not learned before τ_mem"


def batch_laws(runs: Sequence[Run], clock: Clock = "tau_mem") -> list[BatchLaw]:
    """One law per set of runs that differ in nothing but their batch, where there are enough."""
    return [law for law in found_batch_laws(runs, clock) if isinstance(law, BatchLaw)]


def found_batch_laws(runs: Sequence[Run], clock: Clock = "tau_mem") -> Iterator[BatchLaw | str]:
    """The laws of ``batch_laws`` one by one, since each takes a tenth of a second; or why a set of runs has none."""
    labels = group_labels([run.settings for run in runs], besides={"training.batch"})
    groups = grouped(zip(runs, labels, strict=True), lambda pair: (pair[1], pair[0].settings.data.n))
    for (label, n), pairs in groups.items():
        members = [run for run, _ in pairs]
        if len({run.settings.training.batch for run in members}) >= FEWEST:
            try:
                yield batch_law(members, clock)
            except UserError as error:
                yield f"{label}, N = {n:,}: {error}"
