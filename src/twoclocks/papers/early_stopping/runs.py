"""The runs behind P2's figures and claims on the Random Hierarchy Model (RHM), in the layout of its authors.

Their networks have 8,192 channels, ours 512: this fits several runs on one GPU. ``rhm-wide`` has the full width, to see
whether that changes a curve.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from twoclocks.papers.grids import grid
from twoclocks.papers.scales import Scale
from twoclocks.sweeps.grid import Cell

RHM = "p2-rhm-l3-authors"
WIDTH, FULL_WIDTH = 512, 8192
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
# With belief propagation as the network, 250 levels make 0.2% of the strings invalid (95%: at most 0.7%).
NARROW = {"model.width": WIDTH, "objective.sampler_levels": 250}
COUNTED = {"clocks.above_chance": True}  # at P = 16,384, one true string in 16 is in the training set


def evaluated(count: int, first: int, samples: int = 2048) -> dict[str, Any]:
    """So many evaluations, of which the first is at this step; nothing is kept but the rows."""
    kept = {"evaluation.keep_samples": 0, "evaluation.keep_weights": 0}
    return {
        **{"evaluation.evaluations": count, "evaluation.first": first, "evaluation.samples": samples},
        **kept,
        **COUNTED,
    }


FIRST = 64  # step of the first evaluation
FIRST_COUNT = 40  # evaluations of the runs that were made first


def first_steps_of(n: int) -> int:
    """How long a run of n strings was at first."""
    return 131_072 if n >= 8192 else min(128 * n, 262_144)


def steps_of(n: int) -> int:
    """How long a run of n strings is: small ones until nearly all samples are copies, large ones beyond τ_rule."""
    # At P = 4,096 copies exceed chance by 12 to 13 points at step 262,144, too late for three evaluations in a row. Of
    # six runs at P = 8,192 and 16,384, four did not keep 85% valid samples by step 131,072.
    return 262_144 if n >= 8192 else 393_216 if n == 4096 else first_steps_of(n)


def evaluations_of(n: int) -> int:
    """As many per factor 2 in steps as the runs have that were made first."""
    longer = math.log(steps_of(n) / FIRST) / math.log(first_steps_of(n) / FIRST)
    return 1 + round((FIRST_COUNT - 1) * longer)


@grid("rhm-sizes", 3, "the grammar (16, 4, 3, 2) over P, below and above P* = 4,096")
def rhm_sizes(scale: Scale) -> Iterator[Cell]:
    for n in scale.sizes(SIZES):
        for seed in scale.seeds(3):
            shared = {**NARROW, "training.steps": steps_of(n), **evaluated(evaluations_of(n), FIRST)}
            yield scale.cell(RHM, {"data.n": n, "training.seed": seed}, shared)


@grid("rhm-wide", 7, "the same with all 8,192 channels, at three P")
def rhm_wide(scale: Scale) -> Iterator[Cell]:
    for n in scale.sizes((1024, 4096, 16384)):
        shared = {"training.steps": 32_768, "objective.sampler_levels": 250, **evaluated(24, FIRST, 1024)}
        yield scale.cell(RHM, {"data.n": n}, shared)


DEEP, DEEP_SIZE = "p2-rhm-l5-authors", 1024
HALF = {"clocks.stop": "memory", "clocks.memory_threshold": 0.5}  # such a run ends when half of the samples are copies


@grid("rhm-deep", 7, "the grammar (16, 3, 5, 2) with 1,024 strings until half of the samples are copies", twins=True)
def rhm_deep(scale: Scale) -> Iterator[Cell]:
    kept = {"evaluation.keep_samples": 512, "evaluation.keep_weights": 24}
    for n in scale.sizes((DEEP_SIZE,)):
        for seed in scale.seeds(3):
            for part in (0, 1):
                shared = {**NARROW, "training.steps": 262_144, **evaluated(50, FIRST), **kept, **HALF}
                yield scale.cell(DEEP, {"data.n": n, "data.part": part, "training.seed": seed}, shared)


@grid("rhm-productions", 7, "the rules that an early-stopped model uses, in 16,384 samples", views=("productions",))
def rhm_productions(scale: Scale) -> Iterator[Cell]:
    kept = {"evaluation.keep_samples": 16_384}
    for n in scale.sizes((16_384,)):
        for seed in scale.seeds(3):
            # P2's step is the third of five evaluations; at the last, nine of ten strings are valid.
            shared = {**NARROW, "training.steps": 131_072, **evaluated(5, 8_192, samples=16_384), **kept}
            yield scale.cell(RHM, {"data.n": n, "training.seed": seed}, shared)
