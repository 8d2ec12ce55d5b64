"""Which fused form a network gets, and what every fused forward pass must keep to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest
import torch

from twoclocks import models
from twoclocks.core.config import build
from twoclocks.kernels import fused_forward, fusions, make_form
from twoclocks.kernels.cpu_functions import prefers_onednn
from twoclocks.kernels.cpu_operations import CpuForm
from twoclocks.kernels.linear_layers import LinearForm
from twoclocks.kernels.registry import FUSIONS, MixedForm
from twoclocks.models.gpt import GPT
from twoclocks.objectives import EDM
from twoclocks.testing.contracts import randomised
from twoclocks.training.loop import TrainingSettings
from twoclocks.training.optimizer import use_kernels

pytest.importorskip("triton")
from fused_networks import DEVICE, HALF

from twoclocks.kernels.triton_operations import TritonForm

pytestmark = pytest.mark.slow  # Triton's interpreter takes about a second per network


def test_which_form_a_network_gets() -> None:
    gpt = models.create("gpt", width=16, depth=1, heads=2).build((4,), 2)
    unet = models.create("unet1d", width=16).build((4,), 2)
    adam = partial(make_form, optimizer="adam")
    assert isinstance(adam(gpt, "float32", on_gpu=False, fused=True), CpuForm)
    assert adam(gpt, "float32", on_gpu=False, fused=False) is None
    assert isinstance(adam(unet, "float32", on_gpu=False, fused=True), LinearForm) == prefers_onednn()
    assert adam(gpt, "float32", on_gpu=True, fused=True) is None
    assert adam(gpt, "tf32", on_gpu=True, fused=True) is None
    assert isinstance(adam(gpt, "bfloat16", on_gpu=False, fused=True), MixedForm)
    assert isinstance(adam(gpt, "bfloat16", on_gpu=True, fused=False), MixedForm)
    assert isinstance(adam(gpt, "bfloat16", on_gpu=True, fused=True), TritonForm)
    assert isinstance(adam(unet, "bfloat16", on_gpu=True, fused=True), MixedForm)  # nobody fused it


def test_a_fused_network_with_rates_of_its_own_for_the_optimizer_gets_the_mixed_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fused optimizers have one rate for all parameters."""

    class Rated(GPT):
        def learning_rates(self, optimizer: str) -> Mapping[str, float]:
            return {"head.weight": 0.5} if optimizer == "sgd" else {}

    monkeypatch.setitem(FUSIONS, Rated, fusions()[GPT])
    for optimizer, form in {"adam": TritonForm, "adamw": TritonForm, "sgd": MixedForm}.items():
        network = models.create("gpt", width=16, depth=1, heads=2).build((4,), 2)
        network.__class__ = Rated
        chosen = {"device": "cuda", "precision": "bfloat16", "kernels": "fused", "optimizer": optimizer}
        use_kernels(network, EDM(), build(TrainingSettings, {"steps": 1, **chosen}))
        assert isinstance(network.fused, form)


def test_a_form_gets_inputs_by_position_and_by_name() -> None:
    network = randomised(models.create("gpt", width=16, depth=1, heads=2), (4,), 2).to(DEVICE)
    tokens = torch.zeros(2, 4, dtype=torch.int64, device=DEVICE)
    for form in (None, MixedForm(), TritonForm(network, HALF)):
        network.fused = form
        with torch.no_grad():
            assert torch.equal(network(tokens=tokens, cache=None), network(tokens))


def test_a_class_has_one_fused_forward_and_its_subclasses_none() -> None:
    gpt = next(iter(fusions()))
    with pytest.raises(ValueError, match="already has a fused forward"):
        fused_forward(gpt)(lambda network, operations: None)

    class Other(gpt): ...

    assert Other not in fusions()
