"""New as a whole, known in its parts? Novelty of pieces and of blocks of pieces against chance (P1 §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from twoclocks.core.proportion import clopper_pearson
from twoclocks.data.sets import cube_set
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.dissection.view import VIEWS, Arrays, Bench, Floats, Info, View, plain
from twoclocks.evaluation.copies import Copies, digest, pack
from twoclocks.evaluation.metric import CHANCE_SAMPLES, pieces_named
from twoclocks.rules.base import Rule


@dataclass(frozen=True)
class GroupsInfo(Info):
    kinds: tuple[str, ...]  # of pieces
    blocks: tuple[int, ...]  # how many neighbouring pieces of the first kind a block has
    seen: Floats  # (steps, kinds): pieces of new samples that occur in the training set
    coverage: Floats  # (steps, kinds): pieces of the training set that some sample has
    block_seen: Floats  # (steps, blocks): blocks of samples that stand at the same place in a training sample
    trials: Floats  # (steps,): new samples
    chance_seen: Floats  # (2, kinds): the same for samples of the rule itself, and for uniform symbols
    chance_coverage: Floats
    chance_block: Floats

    def seen_interval(self) -> tuple[Floats, Floats]:
        """95% bounds of ``seen``, pieces of one sample counted as one trial."""
        trials = np.maximum(self.trials, 1)[:, None]
        low, high = clopper_pearson(np.nan_to_num(self.seen) * trials, trials, np.full(self.seen.shape, 0.025))
        return low, high

    def sentences(self) -> list[str]:
        low, high = self.seen_interval()
        said = []
        for k, kind in enumerate(self.kinds):
            if self.trials[-1]:
                said.append(
                    f"At the last evaluation {self.seen[-1, k]:.1%} ({low[-1, k]:.1%} to {high[-1, k]:.1%}) of the "
                    f"{pieces_named(kind)} in samples that are no copies occur in the training set; by chance "
                    f"{self.chance_seen[0, k]:.1%} for a perfect model of the rule, {self.chance_seen[1, k]:.1%} for "
                    f"uniform symbols. Samples cover {self.coverage[-1, k]:.1%} of the training set's "
                    f"{pieces_named(kind)}."
                )
        excess = self.block_seen[-1] - self.chance_block[0]
        above = [size for size, more in zip(self.blocks, excess, strict=True) if more > 0.05]
        if above:
            said.append(
                f"Blocks of {above[0]} or more neighbouring pieces are copied from their place in a training sample "
                f"more often than chance explains (for {above[-1]} by {excess[self.blocks.index(above[-1])]:.0%})."
            )
        else:
            said.append("At every size, blocks of neighbouring pieces are copied no more often than chance explains.")
        return said

    def numbers(self) -> dict[str, Any]:
        return {
            "seen": {kind: plain(self.seen[:, k]) for k, kind in enumerate(self.kinds)},
            "coverage": {kind: plain(self.coverage[:, k]) for k, kind in enumerate(self.kinds)},
            "blocks": {str(size): plain(self.block_seen[:, k]) for k, size in enumerate(self.blocks)},
            "chance_rule": {
                "seen": dict(zip(self.kinds, self.chance_seen[0].tolist(), strict=True)),
                "coverage": dict(zip(self.kinds, self.chance_coverage[0].tolist(), strict=True)),
                "blocks": dict(zip(map(str, self.blocks), self.chance_block[0].tolist(), strict=True)),
            },
        }


@VIEWS.register("groups")
@dataclass(frozen=True, kw_only=True)
class Groups(View):
    """Whether pieces are known and only their combination is new."""

    reads: ClassVar[Reads] = "samples"

    def prepare(self, subject: Subject) -> Bench:
        return GroupsBench(subject)

    def info(self, subject: Subject, steps: Sequence[int], still: Arrays, looks: Mapping[str, Any]) -> GroupsInfo:
        pieces = subject.rule.parts(subject.train[:1])
        kinds = tuple(pieces)
        return GroupsInfo(
            steps=np.array(steps, dtype=np.int64),
            clocks=subject.clocks,
            kinds=kinds,
            blocks=block_sizes(pieces[kinds[0]].shape[1]),
            seen=looks["seen"],
            coverage=looks["coverage"],
            block_seen=looks["blocks"],
            trials=looks["trials"][:, 0],
            chance_seen=still["seen"],
            chance_coverage=still["coverage"],
            chance_block=still["blocks"],
        )


class GroupsBench(Bench):
    def __init__(self, subject: Subject) -> None:
        self.subject, self.rule = subject, subject.rule
        self.train = subject.train.to(subject.device)

    @cached_property
    def contents(self) -> dict[str, Copies]:
        """The contents that pieces of training samples have, wherever they stand."""
        return {
            kind: Copies(piece.flatten(0, 1), self.rule.symbols) for kind, piece in self.rule.parts(self.train).items()
        }

    @cached_property
    def places(self) -> dict[int, list[Copies]]:
        """For each size of a block, what stands in the training set at each of its places."""
        return {
            size: [Copies(block, self.rule.symbols) for block in blocks_of(self.rule, self.train, size)]
            for size in self.sizes
        }

    @property
    def sizes(self) -> tuple[int, ...]:
        return block_sizes(next(iter(self.rule.parts(self.train[:1]).values())).shape[1])

    def still(self) -> Arrays:
        """What samples of the rule, and uniform symbols, would show; as many as are looked at."""
        number, seed = self.subject.settings.evaluation.samples, self.subject.settings.evaluation.seed
        drawn = (
            self.rule.sample(max(number, CHANCE_SAMPLES), seed),
            cube_set(self.rule, max(number, CHANCE_SAMPLES), seed),
        )
        found = [self.measure(rows.to(self.subject.device), number) for rows in drawn]
        return {name: np.stack([one[name] for one in found]) for name in ("seen", "coverage", "blocks")}

    def look(self, step: int) -> Arrays:
        symbols = self.subject.samples(step).symbols
        return self.measure(symbols, len(symbols))

    def measure(self, symbols: Tensor, covering: int) -> Arrays:
        """``covering``: how many of the samples count for coverage, which grows with their number."""
        new = symbols[~self.subject.evaluator.copies.found(symbols)]
        parts, new_parts = self.rule.parts(symbols[:covering]), self.rule.parts(new)
        seen, coverage = [], []
        for kind, contents in self.contents.items():
            hits = contents.found(new_parts[kind].flatten(0, 1))
            seen.append(float(hits.double().mean()) if len(new) else np.nan)
            coverage.append(covered(contents, parts[kind].flatten(0, 1), self.rule.symbols))
        blocks = [
            float(
                torch.stack(
                    [
                        c.found(b).double().mean()
                        for c, b in zip(places, blocks_of(self.rule, symbols, size), strict=True)
                    ]
                ).mean()
            )
            for size, places in self.places.items()
        ]
        return {
            "seen": np.array(seen),
            "coverage": np.array(coverage),
            "blocks": np.array(blocks),
            "trials": np.array([len(new)], dtype=np.float64),
        }


def covered(contents: Copies, pieces: Tensor, symbols: int) -> float:
    """Fraction of the known contents that occur among some pieces."""
    digests = digest(pack(pieces[contents.found(pieces)], symbols), contents.seed)
    return len(torch.unique(digests)) / len(contents)


def block_sizes(pieces: int) -> tuple[int, ...]:
    """1, 2, 4, … and all pieces: single ones, whole samples, and scales between."""
    return tuple(sorted({2**k for k in range(pieces.bit_length()) if 2**k <= pieces} | {pieces}))


def blocks_of(rule: Rule, symbols: Tensor, size: int) -> list[Tensor]:
    """Neighbouring pieces of the rule's first kind, ``size`` at a time without overlap: (n, size·entries) each."""
    pieces = next(iter(rule.parts(symbols).values()))  # (n, pieces, entries)
    return [part.flatten(1) for part in pieces.split(size, dim=1) if part.shape[1] == size]
