"""New as a whole, known in its parts? Novelty of pieces and of blocks of pieces against chance (P1 §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from twoclocks.core.arrays import Floats
from twoclocks.core.constants import CHANCE_SAMPLES
from twoclocks.core.proportion import clopper_pearson
from twoclocks.data.sets import cube_set
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.dissection.view import VIEWS, Arrays, Info, Probe, View, plain
from twoclocks.evaluation.copies import Copies, digest, pack
from twoclocks.evaluation.metric import pieces_named
from twoclocks.rules.base import RULES, Rule
from twoclocks.runs.settings import RunSettings


@dataclass(frozen=True)
class GroupsInfo(Info):
    kinds: tuple[str, ...]  # of pieces
    blocks: tuple[int, ...]  # how many neighbouring pieces of the first kind a block has
    seen: Floats  # (steps, kinds): pieces of new samples that occur in the training set
    coverage: Floats  # (steps, kinds): pieces of the training set that some sample has
    block_seen: Floats  # (steps, blocks): blocks of samples that stand at the same place in a training sample
    trials: Floats  # (steps,): samples that are no copies
    samples: Floats  # (steps,): all samples
    chance_seen: Floats  # (2, kinds): the same for samples of the rule itself, and for uniform symbols
    chance_coverage: Floats
    chance_block: Floats

    def copied_blocks(self) -> dict[int, tuple[float, float, float]]:
        """Sizes at which blocks are surely copied more often than chance explains: rate, its lower bound, chance.

        At the last step; blocks of one sample are one trial, and all sizes share the permitted error.
        """
        tail = np.full(len(self.blocks), 0.025 / len(self.blocks))
        rate, chance = self.block_seen[-1], self.chance_block[0]
        low, _ = clopper_pearson(rate * self.samples[-1], np.full(len(rate), self.samples[-1]), tail)
        _, most = clopper_pearson(chance * CHANCE_SAMPLES, np.full(len(rate), float(CHANCE_SAMPLES)), tail)
        found = zip(self.blocks, rate, low, most, chance, strict=True)
        return {size: (float(r), float(a), float(c)) for size, r, a, b, c in found if a > b}

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
        above = self.copied_blocks()
        for size, (rate, least, chance) in above.items():
            what = "whole samples" if size == self.blocks[-1] else f"blocks of {size} neighbouring pieces"
            said.append(
                f"{rate:.1%} of the {what} stand so, at their place, in a training sample (surely more than "
                f"{least:.1%}; chance {chance:.1%})."
            )
        if not above:
            said.append("At no size are blocks of neighbouring pieces surely copied more often than chance explains.")
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

    def refusal(self, settings: RunSettings) -> str | None:
        if kinds_of(settings.rule):
            return None
        return f"rule {RULES.name_of(settings.rule)} has no pieces smaller than a whole sample"

    def prepare(self, subject: Subject) -> Probe:
        return GroupsProbe(subject)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> GroupsInfo:
        pieces, kinds = subject.rule.parts(subject.train[:1]), kinds_of(subject.rule)
        return GroupsInfo(
            steps=np.array(steps, dtype=np.int64),
            clocks=subject.clocks,
            kinds=kinds,
            blocks=block_sizes(pieces[kinds[0]].shape[1]),
            seen=measurements["seen"],
            coverage=measurements["coverage"],
            block_seen=measurements["blocks"],
            trials=measurements["trials"][:, 0],
            samples=measurements["trials"][:, 1],
            chance_seen=constants["seen"],
            chance_coverage=constants["coverage"],
            chance_block=constants["blocks"],
        )


class GroupsProbe(Probe):
    def __init__(self, subject: Subject) -> None:
        self.subject, self.rule = subject, subject.rule
        self.train = subject.train.to(subject.device)

    @cached_property
    def contents(self) -> dict[str, Copies]:
        """The contents that pieces of training samples have, wherever they stand."""
        parts = self.rule.parts(self.train)
        return {kind: Copies(parts[kind].flatten(0, 1), self.rule.symbols) for kind in kinds_of(self.rule)}

    @cached_property
    def places(self) -> dict[int, list[Copies]]:
        """For each size of a block, what stands in the training set at each of its places."""
        return {
            size: [Copies(block, self.rule.symbols) for block in blocks_of(self.rule, self.train, size)]
            for size in self.sizes
        }

    @property
    def sizes(self) -> tuple[int, ...]:
        return block_sizes(first_pieces(self.rule, self.train[:1]).shape[1])

    def constants(self) -> Arrays:
        """What samples of the rule, and uniform symbols, would show; as many as are looked at."""
        chosen = self.subject.settings.evaluation
        number = min(chosen.samples, chosen.keep_samples)
        drawn = self.rule.sample(CHANCE_SAMPLES, chosen.seed), cube_set(self.rule, CHANCE_SAMPLES, chosen.seed)
        found = [self.summarise(rows.to(self.subject.device), number) for rows in drawn]
        return {name: np.stack([one[name] for one in found]) for name in ("seen", "coverage", "blocks")}

    def measure(self, step: int) -> Arrays:
        symbols = self.subject.judged(step)[0].symbols
        return self.summarise(symbols, len(symbols))

    def summarise(self, symbols: Tensor, covering: int) -> Arrays:
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
            "trials": np.array([len(new), len(symbols)], dtype=np.float64),
        }


def covered(contents: Copies, pieces: Tensor, symbols: int) -> float:
    """Fraction of the known contents that occur among some pieces."""
    digests = digest(pack(pieces[contents.found(pieces)], symbols), contents.seed)
    return len(torch.unique(digests)) / len(contents)


def block_sizes(pieces: int) -> tuple[int, ...]:
    """1, 2, 4, … and all pieces: single ones, whole samples, and scales between."""
    return tuple(sorted({2**k for k in range(pieces.bit_length()) if 2**k <= pieces} | {pieces}))


def kinds_of(rule: Rule) -> tuple[str, ...]:
    """Kinds of pieces that are smaller than a whole sample."""
    parts = rule.parts(rule.empty(1))
    return tuple(kind for kind, pieces in parts.items() if pieces.shape[2] < rule.empty(1).numel())


def first_pieces(rule: Rule, symbols: Tensor) -> Tensor:
    """The pieces of the first such kind, (n, pieces, entries)."""
    return rule.parts(symbols)[kinds_of(rule)[0]]


def blocks_of(rule: Rule, symbols: Tensor, size: int) -> list[Tensor]:
    """Neighbouring pieces of the first kind, ``size`` at a time without overlap: (n, size·entries) each."""
    return [part.flatten(1) for part in first_pieces(rule, symbols).split(size, dim=1) if part.shape[1] == size]
