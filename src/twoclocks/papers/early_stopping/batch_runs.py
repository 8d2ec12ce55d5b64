"""Sweeps over the batch at fixed N: does τ_mem follow samples seen, steps·batch/N, or steps?

P1 draws its time steps·batch/N for runs of one batch; P2 shows that the batch does not matter for one hidden layer at
fixed σ. All runs here have N ≥ batch, and rules that are easy enough to be learned before τ_mem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twoclocks.analysis.batches import BatchLaw, batch_law, unfair
from twoclocks.clocks.window import Clocks
from twoclocks.core.config import flat, to_mapping
from twoclocks.core.errors import UserError
from twoclocks.papers.as_printed import PRINTED, printed_clocks, stable
from twoclocks.papers.early_stopping.grammar_runs import VALID
from twoclocks.papers.early_stopping.runs import NARROW, RHM
from twoclocks.papers.early_stopping.runs import evaluated as grammar_evaluated
from twoclocks.papers.grids import grid
from twoclocks.papers.records import Record, Records
from twoclocks.papers.scales import Scale
from twoclocks.papers.seeds import Seeds, fewest
from twoclocks.papers.two_clocks.runs import AT_MEMORY, DIT, evaluated
from twoclocks.runs.load import Run
from twoclocks.sweeps.grid import Cell

LINE = 14
SEEDS = 3


@dataclass(frozen=True)
class BatchSweep:
    """Runs of one model on one training set that differ in batch and seed."""

    model: str  # and its rule, in words
    preset: str
    change: Mapping[str, Any]  # of the preset, besides N, batch and seed
    n: int
    parts: tuple[int, ...]  # batches are N divided by these
    shared: Mapping[str, Any]  # length and evaluations, the same for all batches: runs end at τ_mem
    valid: float = PRINTED.rule_threshold  # proportion of valid samples from which the rule is learned
    copied: bool = False  # whether small scales have the N of diffusion, whose τ_mem is late

    def title(self, scale: Scale) -> str:
        return f"{self.model}, N = {self.size(scale):,}"

    def size(self, scale: Scale) -> int:
        (n,) = (scale.copied_sizes if self.copied else scale.sizes)((self.n,))
        return n

    def batches(self, scale: Scale) -> list[int]:
        """The batch sizes at a scale, the smallest first."""
        n = self.size(scale)
        return sorted({max(1, n // part) for part in scale.thinned(self.parts)})

    def cells(self, scale: Scale) -> Iterator[Cell]:
        for batch in self.batches(scale):
            for seed in scale.seeds(SEEDS):
                point = {**self.change, "data.n": self.size(scale), "training.batch": batch, "training.seed": seed}
                yield scale.cell(self.preset, point, self.shared)

    def runs(self, records: Records) -> Records:
        """The runs of this sweep; none that diverged."""
        first = next(iter(self.cells(records.scale))).settings
        return stable(records.alike(flat(to_mapping(first, whole=True)), ("training.batch",)))

    def clocks(self, run: Run) -> Clocks:
        return printed_clocks(Record(run), self.valid)

    def law(self, runs: Records) -> BatchLaw | str:
        """The power of the batch in τ_mem, or why there is none."""
        try:
            return batch_law(runs.runs, read=self.clocks)
        except UserError as error:
            return str(error)

    def fair(self, runs: Records) -> Records:
        """Those that learned the rule before τ_mem."""
        return runs.those(lambda one: unfair(one.run, self.clocks(one.run)) is None)

    def seeds(self, runs: Records) -> Seeds:
        """The seeds that every batch of a fair comparison has."""
        return fewest(same.seeds for same in self.fair(runs).by("training.batch").values())


# Twice the P* = 512 strings that the deepest rules need; P2's own grammars copy before they are learned at this P.
GRAMMAR = BatchSweep(
    model="D3PM, grammar (16, 2, 4, 2)",
    preset=RHM,
    change={"rule.depth": 4, "rule.synonyms": 2},
    n=1024,
    parts=(32, 16, 8, 4, 2),
    shared={**NARROW, "training.steps": 131_072, **grammar_evaluated(60, 64), **AT_MEMORY},
    valid=VALID,
)
# If τ_mem follows samples seen, the smallest batch needs eight times the steps of the preset's, about 25,000.
DIT_PAIRS = BatchSweep(
    model="DiT-mini, G = 2",
    preset=DIT,
    change={"rule.group": 2},
    n=256,
    parts=(8, 4, 2, 1),
    shared={"training.steps": 240_000, **evaluated(100, 300), **AT_MEMORY},
    copied=True,
)
GPT_TRIPLES = BatchSweep(
    model="GPT-nano, G = 3",
    preset="p1-gpt-nano",
    change={"rule.group": 3},
    n=512,
    parts=(32, 16, 8, 4, 2),
    shared={"training.steps": 30_000, **evaluated(80, 30), **AT_MEMORY},
)


@grid("batches-rhm", LINE, "τ_mem over the batch at fixed N: D3PM on a grammar that is learned before τ_mem")
def batches_rhm(scale: Scale) -> Iterator[Cell]:
    yield from GRAMMAR.cells(scale)


@grid("batches-dit", LINE, "the same for DiT-mini on pairs of bits")
def batches_dit(scale: Scale) -> Iterator[Cell]:
    yield from DIT_PAIRS.cells(scale)


@grid("batches-gpt", LINE, "the same for GPT-nano on triples of bits")
def batches_gpt(scale: Scale) -> Iterator[Cell]:
    yield from GPT_TRIPLES.cells(scale)
