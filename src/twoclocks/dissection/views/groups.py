"""View ``groups``: are new samples made of known pieces? Novelty of pieces and blocks against chance (P1 §2)."""

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
    blocks: tuple[int, ...]  # sizes of blocks, in neighbouring pieces of the first kind
    seen: Floats  # (steps, kinds): fraction of the pieces of new samples that occur in the training set
    coverage: Floats  # (steps, kinds): fraction of the pieces of the training set that occur in samples
    block_seen: Floats  # (steps, blocks): fraction of blocks that occur at the same position in a training sample
    trials: Floats  # (steps,): samples that are no copies
    samples: Floats  # (steps,): all samples
    chance_seen: Floats  # (2, kinds): the same for samples of the rule itself, and for uniform symbols
    chance_coverage: Floats
    chance_block: Floats

    def copied_blocks(self) -> dict[int, tuple[float, float, float]]:
        """Sizes at which blocks are copied more often than by chance: rate, its lower bound, chance.

        At the last step and with 95% confidence over all sizes; the blocks of one sample count as one trial.
        """
        tail = np.full(len(self.blocks), 0.025 / len(self.blocks))
        rate, chance = self.block_seen[-1], self.chance_block[0]
        low, _ = clopper_pearson(rate * self.samples[-1], np.full(len(rate), self.samples[-1]), tail)
        _, most = clopper_pearson(chance * CHANCE_SAMPLES, np.full(len(rate), float(CHANCE_SAMPLES)), tail)
        found = zip(self.blocks, rate, low, most, chance, strict=True)
        return {size: (float(r), float(a), float(c)) for size, r, a, b, c in found if a > b}

    def seen_interval(self) -> tuple[Floats, Floats]:
        """95% bounds of ``seen``; the pieces of one sample count as one trial."""
        trials = np.maximum(self.trials, 1)[:, None]
        low, high = clopper_pearson(np.nan_to_num(self.seen) * trials, trials, np.full(self.seen.shape, 0.025))
        return low, high

    def sentences(self) -> list[str]:
        low, high = self.seen_interval()
        found = []
        for k, kind in enumerate(self.kinds):
            if self.trials[-1]:
                found.append(
                    f"At the last evaluation {self.seen[-1, k]:.1%} ({low[-1, k]:.1%} to {high[-1, k]:.1%}) of the "
                    f"{pieces_named(kind)} in samples that are not copies occur in the training set; it would be "
                    f"{self.chance_seen[0, k]:.1%} for a perfect model of the rule and {self.chance_seen[1, k]:.1%} "
                    f"for uniform symbols. Samples contain {self.coverage[-1, k]:.1%} of the training set's "
                    f"{pieces_named(kind)}."
                )
        above = self.copied_blocks()
        for size, (rate, least, chance) in above.items():
            what = "samples also occur" if size == self.blocks[-1] else f"{size}-piece blocks also occur"
            where = "in the training set" if size == self.blocks[-1] else "at the same position in a training sample"
            found.append(
                f"{rate:.1%} of {what} {where} (at least {least:.1%} with 95% confidence; chance {chance:.1%})."
            )
        if not above:
            found.append("At no size are blocks copied more often than by chance with 95% confidence.")
        return found

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
    """Whether new samples are new combinations of known pieces."""

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
        """The pieces of training samples, at any position."""
        parts = self.rule.parts(self.train)
        return {kind: Copies(parts[kind].flatten(0, 1), self.rule.symbols) for kind in kinds_of(self.rule)}

    @cached_property
    def known_blocks(self) -> dict[int, list[Copies]]:
        """For each size, the blocks of the training set at each position."""
        return {
            size: [Copies(block, self.rule.symbols) for block in blocks_of(self.rule, self.train, size)]
            for size in self.sizes
        }

    @property
    def sizes(self) -> tuple[int, ...]:
        return block_sizes(first_pieces(self.rule, self.train[:1]).shape[1])

    def constants(self) -> Arrays:
        """The same fractions for samples of the rule and for uniform symbols."""
        chosen = self.subject.settings.evaluation
        number = min(chosen.samples, chosen.keep_samples)
        drawn = self.rule.sample(CHANCE_SAMPLES, chosen.seed), cube_set(self.rule, CHANCE_SAMPLES, chosen.seed)
        found = [self.summarise(rows.to(self.subject.device), number) for rows in drawn]
        return {name: np.stack([one[name] for one in found]) for name in ("seen", "coverage", "blocks")}

    def measure(self, step: int) -> Arrays:
        symbols = self.subject.judged(step)[0].symbols
        return self.summarise(symbols, len(symbols))

    def summarise(self, symbols: Tensor, covering: int) -> Arrays:
        """All fractions; ``covering``: how many samples count for coverage, which grows with their number."""
        new = symbols[~self.subject.evaluator.copies.found(symbols)]
        parts, new_parts = self.rule.parts(symbols[:covering]), self.rule.parts(new)
        seen, coverage = [], []
        for kind, contents in self.contents.items():
            hits = contents.found(new_parts[kind].flatten(0, 1))
            seen.append(float(hits.double().mean()) if len(new) else np.nan)
            coverage.append(covered(contents, parts[kind].flatten(0, 1), self.rule.symbols))
        blocks = []
        for size, known in self.known_blocks.items():
            pairs = zip(known, blocks_of(self.rule, symbols, size), strict=True)
            blocks.append(float(torch.stack([there.found(block).double().mean() for there, block in pairs]).mean()))
        return {
            "seen": np.array(seen),
            "coverage": np.array(coverage),
            "blocks": np.array(blocks),
            "trials": np.array([len(new), len(symbols)], dtype=np.float64),
        }


def covered(contents: Copies, pieces: Tensor, symbols: int) -> float:
    """Fraction of ``contents`` that occur among ``pieces``."""
    digests = digest(pack(pieces[contents.found(pieces)], symbols), contents.seed)
    return len(torch.unique(digests)) / len(contents)


def block_sizes(pieces: int) -> tuple[int, ...]:
    """1, 2, 4, … and the number of all pieces, which is a whole sample."""
    return tuple(sorted({2**k for k in range(pieces.bit_length()) if 2**k <= pieces} | {pieces}))


def kinds_of(rule: Rule) -> tuple[str, ...]:
    """Kinds of pieces that are smaller than a whole sample."""
    parts = rule.parts(rule.empty(1))
    return tuple(kind for kind, pieces in parts.items() if pieces.shape[2] < rule.empty(1).numel())


def first_pieces(rule: Rule, symbols: Tensor) -> Tensor:
    """The pieces of the first kind, (n, pieces, entries)."""
    return rule.parts(symbols)[kinds_of(rule)[0]]


def blocks_of(rule: Rule, symbols: Tensor, size: int) -> list[Tensor]:
    """Blocks of ``size`` neighbouring pieces of the first kind, without overlap: (n, size·entries) each."""
    return [part.flatten(1) for part in first_pieces(rule, symbols).split(size, dim=1) if part.shape[1] == size]
