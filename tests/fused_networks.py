"""Networks with a fused forward pass beside their textbook twins, on Triton's interpreter or on the GPU."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from twoclocks import models
from twoclocks.kernels.triton_operations import TritonForm
from twoclocks.testing.contracts import randomised
from twoclocks.training.step import finish_gradients

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # which the interpreter cannot multiply in bfloat16


def inputs(name: str, shape: tuple[int, ...], symbols: int, n: int = 3) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    if name.startswith("gpt"):
        tokens = torch.randint(symbols, (n, *shape), generator=generator)
        tokens[:, 0] = -1
        return (tokens.to(DEVICE),) if name == "gpt" else (tokens.to(DEVICE), torch.linspace(0.1, 0.9, n).to(DEVICE))
    x = torch.randn((n, *shape), generator=generator), torch.randn(n, generator=generator)
    return tuple(part.to(DEVICE) for part in x)


def gradients(network: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
    out = network(*given)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(out.device)
    (out.float() * weights).sum().backward()
    finish_gradients(network)
    return out.detach().float(), {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


def twins(
    name: str, shape: tuple[int, ...], symbols: int, dtype: torch.dtype, width: int = 32, depth: int = 2, **more: object
) -> tuple[nn.Module, nn.Module]:
    chosen = models.create(name, width=width, depth=depth, heads=width // 16, **more)
    plain = randomised(chosen, shape, symbols).to(DEVICE)
    fused = copy.deepcopy(plain)
    fused.fused = TritonForm(fused, dtype)
    return plain, fused


def difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())
