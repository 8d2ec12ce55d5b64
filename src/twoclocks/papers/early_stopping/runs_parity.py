"""Twins on parity: P2 compares samples of two models on images (Fig. 2); bits in pairs are a small form of it."""

from __future__ import annotations

from collections.abc import Iterator

from twoclocks.papers.early_stopping.runs import COUNTED
from twoclocks.papers.grids import grid
from twoclocks.papers.scales import Scale
from twoclocks.papers.two_clocks.runs import evaluated
from twoclocks.sweeps.grid import Cell

NANO, PAIRS, TWIN_SIZE = "p1-dit-nano", 2, 64


@grid("twins-parity", 14, "two DiT-nano on disjoint 64 samples of pairs of bits, beyond τ_mem", twins=True)
def twins_parity(scale: Scale) -> Iterator[Cell]:
    # No end at τ_mem: the models may part after it.
    shared = {"training.steps": 24_000, **evaluated(60, 50), "evaluation.keep_samples": 1024, **COUNTED}
    for n in scale.copied_sizes((TWIN_SIZE,)):
        for seed in scale.seeds(3):
            for part in (0, 1):
                point = {"rule.group": PAIRS, "data.n": n, "data.part": part, "training.seed": seed}
                yield scale.cell(NANO, point, shared)
