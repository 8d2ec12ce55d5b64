"""The runs behind P2's claims on images: real digits of 8×8 pixels over N, and twins on disjoint digits.

P2 trains 256 channels on CIFAR-10 (preset ``p2-cifar10``, hours per run). Digits are real images too, come with the
package, and their networks are small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twoclocks.clocks.onset import Onset
from twoclocks.core.arrays import Floats
from twoclocks.evaluation.quality.metrics import FRECHET
from twoclocks.papers.as_printed import PRINTED, printed_clocks, stable
from twoclocks.papers.early_stopping.b04_twins import losses_part
from twoclocks.papers.early_stopping.runs import COUNTED
from twoclocks.papers.grids import grid
from twoclocks.papers.records import Record, Records
from twoclocks.papers.scales import Scale
from twoclocks.runs.columns import LOSS_HELD_OUT, STEP
from twoclocks.sweeps.grid import Cell

DIGITS = "p2-digits"
SIZES = (64, 128, 256, 512)
TWIN_SIZE = 256
# P2 finds τ_mem ∝ N, so runs are as long. Unfinished runs on an H200 had half copies by 13 steps per image (N = 128)
# and 97% by 33 (N = 64).
STEPS_PER_IMAGE = 48
GAP = 0.05  # by which the held-out loss, which begins at 1, exceeds the training loss


def shared(n: int) -> dict[str, object]:
    """Length and evaluations of a run of n images."""
    # Twins compare stored samples. Of the runs over N, one is the first twin: the same settings make it once.
    kept = {"evaluation.keep_samples": 512 if n == TWIN_SIZE else 0, "evaluation.keep_weights": 0}
    return {"training.steps": STEPS_PER_IMAGE * n, **kept, **COUNTED}


@grid("images-sizes", 13, "real digits of 8×8 pixels over N, beyond τ_mem")
def images_sizes(scale: Scale) -> Iterator[Cell]:
    for n in scale.copied_sizes(SIZES):
        for seed in scale.seeds(3):
            yield scale.cell(DIGITS, {"data.n": n, "data.seed": seed, "training.seed": seed}, shared(n))


@grid("images-twins", 13, "two models on disjoint 256 digits each, beyond τ_mem", views=("examples",), twins=True)
def images_twins(scale: Scale) -> Iterator[Cell]:
    for n in scale.copied_sizes((TWIN_SIZE,)):
        for seed in scale.seeds(3):
            for part in (0, 1):
                point = {"data.n": n, "data.part": part, "data.seed": seed, "training.seed": seed}
                yield scale.cell(DIGITS, point, shared(n))


@dataclass(frozen=True)
class NaturalRun:
    """A run on images or texts: when copies begin and when losses part, by ``parting``."""

    record: Record
    parting: float = GAP

    @property
    def n(self) -> int:
        return self.record.n

    @cached_property
    def memory(self) -> Onset:
        """τ_mem: when one sample in ten is a copy beyond chance."""
        return printed_clocks(self.record, PRINTED.rule_threshold).memory

    @cached_property
    def gap(self) -> Onset | None:
        """When held-out and training loss part."""
        return losses_part(self.record, self.parting)


@dataclass(frozen=True)
class ImageRun(NaturalRun):
    """A run on images: also when quality and held-out loss are best."""

    def best_step(self, name: str) -> float:
        """The step at which a column is lowest; an evaluation before the first step does not count."""
        columns = self.record.run.metrics()
        values = np.where(columns[STEP] > 0, columns[name], np.inf)
        return float(columns[STEP][int(np.nanargmin(values))])

    @property
    def last_step(self) -> float:
        return float(self.record.run.metrics()[STEP][-1])

    @cached_property
    def best_loss(self) -> float:
        return self.best_step(LOSS_HELD_OUT)

    @cached_property
    def best_quality(self) -> float:
        return self.best_step(FRECHET)

    @property
    def curves(self) -> dict[str, Floats]:
        return dict(self.record.run.metrics())


def image_runs(records: Records) -> list[ImageRun]:
    """The runs of the preset that change nothing but N and seeds, in order of N; none that diverged, no twins."""
    found = stable(records.baseline(DIGITS)).having(lambda one: one.value("data.part") in (None, 0))
    return sorted(map(ImageRun, found), key=lambda one: (one.n, one.record.seed))
