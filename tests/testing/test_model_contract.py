"""The contract of models calls a network as training and sampling do, and samplers call it as documented."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks import models
from twoclocks.models.base import ModelSettings, Network
from twoclocks.objectives import EDM, OBJECTIVES, sample
from twoclocks.testing import check_model
from twoclocks.testing.contracts import randomised


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
