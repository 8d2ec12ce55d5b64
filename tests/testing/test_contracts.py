"""The contract suites find what is wrong: each broken rule or encoding here must fail with the words that say why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks import models
from twoclocks.data.encodings import Arrays, Decoded, ScalarImage
from twoclocks.models.base import ModelSettings, Network
from twoclocks.objectives import EDM, OBJECTIVES, sample
from twoclocks.rules import GlobalK, Parity
from twoclocks.rules.base import Array, Rule
from twoclocks.testing import check_encoding, check_model, check_rule
from twoclocks.testing.contracts import randomised


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


class LabelledNetwork(Network):
    """Adds the noise label to the image as a channel of its own, so it needs one label per row."""

    def __init__(self, channels: int, entries: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(channels * entries + 1, 512)
        self.out = nn.Linear(512, channels * entries)

    def forward(self, x: Tensor, noise_label: Tensor) -> Tensor:
        features = torch.cat([x.flatten(1), noise_label[:, None]], dim=1)
        return self.out(functional.silu(self.hidden(features))).reshape(x.shape)


@dataclass(frozen=True, kw_only=True)
class Labelled(ModelSettings):
    """A plain module, written from the documentation alone."""

    task: ClassVar[str] = "denoise images"
    example: ClassVar[tuple[tuple[int, ...], int]] = ((1, 2, 4), 2)

    def build(self, shape: tuple[int, ...], symbols: int) -> Network:
        return LabelledNetwork(shape[0], math.prod(shape[1:]))

    @property
    def title(self) -> str:
        return "labelled"


class SquareNetwork(LabelledNetwork):
    """Works for batches of training alone: 6, 8 and 32 rows."""

    def forward(self, x: Tensor, noise_label: Tensor) -> Tensor:
        assert len(x) % 2 == 0, "odd batch"
        return super().forward(x, noise_label)


class OnlyTraining(Labelled):
    def build(self, shape: tuple[int, ...], symbols: int) -> Network:
        return SquareNetwork(shape[0], math.prod(shape[1:]))


class BareModule(Labelled):
    """Builds a torch module that lacks what training asks of a network."""

    def build(self, shape: tuple[int, ...], symbols: int) -> nn.Module:  # type: ignore[override]
        return nn.Linear(1, 1)


@pytest.mark.parametrize("name", [name for name, cls in OBJECTIVES.items() if cls.task == "denoise images"])
def test_samplers_give_one_noise_label_per_row(name: str) -> None:
    objective = OBJECTIVES.create(name)
    network = Labelled().build((1, 2, 4), 2)
    noise = objective.draw_noise(5, (1, 2, 4), torch.Generator().manual_seed(0))
    assert sample(objective, network, noise).shape == (5, 1, 2, 4)


@pytest.mark.parametrize("name", [name for name, cls in OBJECTIVES.items() if cls.task == "restore tokens"])
def test_samplers_of_tokens_give_one_noise_per_row(name: str) -> None:
    objective = OBJECTIVES.create(name).fitted(3)
    seen: set[tuple[int, ...]] = set()

    def network(tokens: Tensor, noise: Tensor) -> Tensor:
        seen.add(tuple(noise.shape))
        return torch.zeros(*tokens.shape, 3)

    sample(objective, network, objective.draw_noise(5, (4,), torch.Generator().manual_seed(0)))
    assert seen == {(5,)}


def test_check_model_samples_too() -> None:
    check_model(Labelled(), (1, 2, 4), 2, EDM())
    with pytest.raises(AssertionError, match="odd batch"):
        check_model(OnlyTraining(), (1, 2, 4), 2, EDM())
    with pytest.raises(AssertionError, match="must return a Network"):
        check_model(BareModule(), (1, 2, 4), 2, EDM())


@pytest.mark.parametrize("model", ["dit", "unet1d", "gpt_full"])
def test_a_label_that_all_rows_share_is_embedded_once(model: str) -> None:
    settings = models.create(model, width=16, **({} if model == "unet1d" else {"depth": 1, "heads": 2}))
    network = randomised(settings, (1, 2, 4) if model == "dit" else (8,), 3)
    x = torch.randn(6, 1, 2, 4) if model == "dit" else torch.randint(3, (6, 8))
    label = torch.tensor([0.3])
    assert torch.equal(network(x, label.expand(6)), network(x, label))  # bit for bit: the same work
    assert torch.allclose(network(x, label.repeat(6)), network(x, label), atol=1e-5)
