"""The contract suites find what is wrong: each broken rule or encoding here must fail with the words that say why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from twoclocks.data.encodings import Arrays, Decoded, ScalarImage
from twoclocks.rules import GlobalK, Parity
from twoclocks.rules.base import Array, Rule
from twoclocks.testing import check_encoding, check_rule


@dataclass(frozen=True, kw_only=True)
class Broken(Parity):
    """Parity of six bits in two groups, until a member is replaced."""

    length: int = 6
    group: int = 3


class Biased(Broken):
    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return np.zeros((n, 6), dtype=np.int64) + 0 * rng.integers(2)


class Incomplete(Broken):
    def draw(self, n: int, rng: np.random.Generator) -> Array:
        bits = super().draw(n, rng)
        bits[bits.all(axis=1)] = 0
        bits[:, :3] = np.where(bits[:, :3].any(axis=1, keepdims=True), bits[:, :3], [1, 1, 0])
        return bits


class Invalid(Broken):
    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return rng.integers(0, 2, size=(n, 6))


class WrongCount(Broken):
    def count(self) -> int:
        return 17


class WrongPartition(Broken):
    def log_partition(self, logits: Tensor) -> Tensor:
        return 2 * super().log_partition(logits)


class SubtlyWrongPartition(Broken):
    """Right at zero, wrong elsewhere."""

    def log_partition(self, logits: Tensor) -> Tensor:
        return super().log_partition(logits) + logits[:, 0, 0] - logits[:, 0, 1]


class WrongParts(Broken):
    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        return {"group": super().parts_valid(x)["group"][:, :1]}


class WrongPartCounts(Broken):
    def part_counts(self) -> dict[str, int]:
        return {"group": 5}


class WrongList(Broken):
    def members(self) -> Tensor:
        return super().members()[1:]


class Deaf(Broken):
    """Ignores its seed."""

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return super().draw(n, np.random.default_rng(0))


class NotUniform(GlobalK):
    uniform_parts: ClassVar[bool] = True


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Biased(), "ignores its seed"),
        (Deaf(), "ignores its seed"),
        (Incomplete(), "sample reaches"),
        (Invalid(), "invalid rows"),
        (WrongCount(), "count"),
        (WrongPartition(), "log_partition"),
        (SubtlyWrongPartition(), "log_partition differs from enumeration"),
        (WrongParts(), "wrong shape"),
        (WrongPartCounts(), "group"),
        (WrongList(), "enumerate"),
        (NotUniform(side=3, ks=(1, 3)), "uniform_parts = False"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Rule) else "",
)
def test_broken_rules_fail_with_the_reason(rule: Rule, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_rule(rule)


def test_the_unbroken_rule_passes() -> None:
    check_rule(Broken())


class Upside(ScalarImage):
    def decode(self, rule: Arrays, x: Tensor) -> Decoded:
        return super().decode(rule, -x)


class Blurred(ScalarImage):
    def decode(self, rule: Arrays, x: Tensor) -> Decoded:
        symbols, distance = super().decode(rule, x)
        return Decoded(symbols, distance + 0.1)


@pytest.mark.parametrize(("encoding", "words"), [(Upside(), "decode must invert"), (Blurred(), "distance zero")])
def test_broken_encodings_fail_with_the_reason(encoding: ScalarImage, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_encoding(encoding, Broken())


def test_abstract_rules_cannot_be_made() -> None:
    for make in (Rule, type("Half", (Rule,), {"count": lambda self: 1})):
        with pytest.raises(TypeError, match="abstract"):
            unfinished: Any = make
            unfinished()
    assert torch.equal(Broken().enumerate()[0], torch.zeros(6, dtype=torch.int64))
