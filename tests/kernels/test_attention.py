"""The attention kernel takes every shape that it says it takes, and gives what torch gives."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from torch.nn.functional import scaled_dot_product_attention as textbook

from twoclocks.kernels import attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # which the interpreter cannot multiply in bfloat16


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [5, 36, 64, 100, 128])
@pytest.mark.parametrize("size", [16, 32, 64, 128])
def test_every_head_and_length_it_takes_is_torchs(size: int, length: int, causal: bool) -> None:
    heads, n = 2, 3
    assert attention.fits(length, heads * size, heads)
    generator = torch.Generator().manual_seed(size + length)
    packed = torch.randn(n, length, 3 * heads * size, generator=generator).to(DEVICE, HALF)
    slope = torch.randn(n, length, heads * size, generator=generator).to(DEVICE, HALF)
    exact = packed.float().requires_grad_()
    q, k, v = exact.view(n, length, 3, heads, size).permute(2, 0, 3, 1, 4)  # each (n, heads, length, size)
    mixed = textbook(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)
    mixed.backward(slope.float())
    assert exact.grad is not None
    assert torch.allclose(attention.forward(packed, heads, causal).float(), mixed.detach(), atol=0.03, rtol=0.02)
    d_packed = attention.backward(packed, slope, heads, causal).float()
    assert torch.allclose(d_packed, exact.grad, atol=0.06, rtol=0.03)
