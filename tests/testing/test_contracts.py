"""The contract suites find what is wrong: everything broken here must fail with the reason in its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from twoclocks import models
from twoclocks.data.encodings import Arrays, Decoded, ScalarImage
from twoclocks.objectives import EDM, Autoregressive, FixedNoise
from twoclocks.objectives.base import Capability, Denoiser, Network, Objective
from twoclocks.rules import GlobalK, Parity
from twoclocks.rules.base import Array, Rule
from twoclocks.testing import check_encoding, check_objective, check_rule


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


class Promised(EDM):
    """Overrides a capability and returns nothing."""

    def denoiser(self, network: Network) -> None:  # type: ignore[override]
        return None

    def reverse_step(self, network: Network, state: Tensor, level: int) -> Tensor:
        return state


class Unbounded(EDM):
    def sigma_range(self) -> None:  # type: ignore[override]
        return None


class Entangled(EDM):
    """Rows of a batch are denoised together."""

    def denoiser(self, network: Network) -> Denoiser:
        denoise = EDM.denoiser(self, network)
        return lambda y, sigma: denoise(y, sigma) + y.mean(dim=0)

    def reverse_step(self, network: Network, state: Tensor, level: int) -> Tensor:
        return self.denoising_step(EDM.denoiser(self, network), state, level)


class Rising(EDM):
    def sampler_sigmas(self) -> Tensor:
        return EDM.sampler_sigmas(self).flip(0)

    def check(self) -> None: ...

    def reverse_step(self, network: Network, state: Tensor, level: int) -> Tensor:
        return state


class OtherStep(EDM):
    """Steps by the denoiser are shorter than those of the sampler."""

    def denoising_step(self, denoiser: Denoiser, state: Tensor, level: int) -> Tensor:
        return (state + EDM.denoising_step(self, denoiser, state, level)) / 2

    def reverse_step(self, network: Network, state: Tensor, level: int) -> Tensor:
        return EDM.denoising_step(self, self.denoiser(network), state, level)


class Elsewhere(FixedNoise):
    def sigma_range(self) -> tuple[float, float]:
        return 2.0, 1.0


class Foresight(Autoregressive):
    """The loss of every token knows the last one."""

    def token_losses(self, network: Network, clean: Tensor) -> Tensor:
        return super().token_losses(network, clean) + clean[:, -1:]


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (Promised(sampler_steps=3), "denoiser must not return None"),
        (Unbounded(sampler_steps=3), "sigma_range must be given"),
        (Entangled(sampler_steps=3), "depend on its neighbours"),
        (Rising(sampler_steps=3), "fall to 0"),
        (OtherStep(sampler_steps=3), "what reverse_step does"),
        (Elsewhere(sampler_steps=3), "the smaller first"),
        (Foresight(), "tokens behind it"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Objective) else "",
)
def test_broken_capabilities_fail_with_the_reason(objective: Objective, words: str) -> None:
    tokens = objective.kind == "tokens"
    model = models.create("gpt" if tokens else "dit", width=16, depth=1, heads=2)
    with pytest.raises(AssertionError, match=words):
        check_objective(objective, model, (6,) if tokens else (1, 2, 3), 2)


def test_an_objective_offers_what_it_overrides() -> None:
    offered = {
        name: {kind.__name__ for kind in (EDM, FixedNoise, Autoregressive) if kind.offers(name)}
        for name in get_args(Capability)
    }
    assert offered == {
        "denoiser": {"EDM", "FixedNoise"},
        "sampler_sigmas": {"EDM"},
        "token_losses": {"Autoregressive"},
        "predictions": {"Autoregressive"},
        "prompted": {"Autoregressive"},
    }
