"""The fused operations against their plain twins: outputs and every gradient, on Triton's interpreter or on the GPU."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from twoclocks import models
from twoclocks.testing.contracts import randomised
from twoclocks.training.loop import TrainingSettings, make_optimizer

pytest.importorskip("triton")
from twoclocks.kernels.adam import ShadowAdam
from twoclocks.kernels.fused import FusedOperations

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # which the interpreter cannot multiply in bfloat16
CASES = [("dit", (1, 3, 4), 2), ("dit", (3, 2, 5), 2), ("gpt", (10,), 2), ("gpt", (17,), 5), ("gpt", (5,), 40)]


def inputs(name: str, shape: tuple[int, ...], symbols: int, n: int = 5) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    if name == "gpt":
        tokens = torch.randint(symbols, (n, *shape), generator=generator)
        tokens[:, 0] = -1
        return (tokens.to(DEVICE),)
    x = torch.randn((n, *shape), generator=generator), torch.randn(n, generator=generator)
    return tuple(part.to(DEVICE) for part in x)


def gradients(network: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
    out = network(*given)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(out.device)
    (out.float() * weights).sum().backward()
    getattr(network.operations, "join", lambda: None)()
    return out.detach().float(), {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


def twins(
    name: str, shape: tuple[int, ...], symbols: int, dtype: torch.dtype, width: int = 48
) -> tuple[nn.Module, nn.Module]:
    plain = randomised(models.create(name, width=width, depth=2, heads=width // 16), shape, symbols).to(DEVICE)
    fused = copy.deepcopy(plain)
    fused.operations = FusedOperations(fused, dtype)
    return plain, fused


def difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize(("name", "shape", "symbols"), CASES)
def test_fused_network_has_the_outputs_and_gradients_of_the_plain_one(
    name: str, shape: tuple[int, ...], symbols: int
) -> None:
    plain, fused = twins(name, shape, symbols, torch.float32)
    given = inputs(name, shape, symbols)
    (out, slopes), (out_fused, slopes_fused) = gradients(plain, given), gradients(fused, given)
    loose = 100 if DEVICE == "cuda" else 1  # where products of float32 are made in TF32
    assert difference(out_fused, out) < 1e-5 * loose
    assert set(slopes) == set(slopes_fused)
    for key, slope in slopes.items():
        assert difference(slopes_fused[key], slope) < 1e-4 * loose, key


@pytest.mark.parametrize(("name", "shape", "symbols"), CASES)
def test_half_precision_differs_by_its_rounding_only(name: str, shape: tuple[int, ...], symbols: int) -> None:
    plain, fused = twins(name, shape, symbols, HALF)
    given = inputs(name, shape, symbols)
    (out, slopes), (out_fused, slopes_fused) = gradients(plain, given), gradients(fused, given)
    assert difference(out_fused, out) < 0.02
    for key, slope in slopes.items():
        assert difference(slopes_fused[key], slope) < 0.05, key


@pytest.mark.parametrize(("optimizer", "decay"), [("adam", 0.0), ("adam", 0.1), ("adamw", 0.1)])
def test_flat_adam_is_torchs(optimizer: str, decay: float) -> None:
    """The same updates as torch's Adam for the same gradients, shadows and interchangeable state included."""
    plain, fused = twins("gpt", (10,), 2, torch.bfloat16)
    settings = TrainingSettings(steps=1, optimizer=optimizer, weight_decay=decay, learning_rate=1e-2)  # type: ignore[arg-type]
    ours, theirs = make_optimizer(fused, settings), make_optimizer(plain, settings)
    assert isinstance(ours, ShadowAdam)
    generator = torch.Generator().manual_seed(0)
    for step in range(60):
        for mine, other in zip(fused.parameters(), plain.parameters(), strict=True):
            slope = torch.randn(mine.shape, generator=generator).to(DEVICE) * 10.0 ** (step % 5 - 4)
            mine.grad, other.grad = slope, slope.clone()
        fused.operations.flat.gather()
        ours.step()
        theirs.step()
        if step in (0, 30):
            theirs.load_state_dict(
                {**copy.deepcopy(ours.state_dict()), "param_groups": theirs.state_dict()["param_groups"]}
            )
            ours.load_state_dict(
                {**copy.deepcopy(theirs.state_dict()), "param_groups": ours.state_dict()["param_groups"]}
            )
    for mine, other in zip(fused.parameters(), plain.parameters(), strict=True):
        assert difference(mine.detach(), other.detach()) < 1e-5
        assert torch.allclose(fused.operations.shadow(mine).float(), mine, rtol=2**-7)  # the interpreter cuts off
