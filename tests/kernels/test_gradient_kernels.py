"""Sums over rows, and gradients of a layer's input: against float32, on Triton's interpreter or on the GPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

pytest.importorskip("triton")
from twoclocks.kernels import input_gradient, normalisation, skinny, weight_gradient
from twoclocks.kernels.column_sums import column_sums
from twoclocks.kernels.tma import fits

pytestmark = pytest.mark.slow
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # which the interpreter cannot multiply in bfloat16
TOLERANCE = 1e-2 if DEVICE == "cuda" else 1e-3


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def error(found: Tensor, true: Tensor) -> float:
    return float((found.float() - true).norm() / true.norm())


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 40), (128, 16), (300, 77)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sums_are_those_of_all_rows(rows: int, columns: int, dtype: torch.dtype) -> None:
    x = normal(rows, columns).to(dtype)
    true = x.double().sum(dim=0)
    assert torch.allclose(column_sums(x).double(), true, atol=1e-4)
    wide = normal(rows, columns + 9).to(dtype)[:, 4 : 4 + columns]  # rows that lie apart
    assert torch.allclose(column_sums(wide).double(), wide.double().sum(dim=0), atol=1e-4)
    turned = normal(columns, rows).to(dtype).T  # columns that lie apart
    assert torch.allclose(column_sums(turned).double(), turned.double().sum(dim=0), atol=1e-4)


def test_sums_are_written_where_they_are_wanted_and_nowhere_else() -> None:
    memory = torch.full((50,), 7.0, device=DEVICE)
    x = normal(20, 30)
    assert column_sums(x, out=memory[10:40]).data_ptr() == memory[10:].data_ptr()
    assert torch.allclose(memory[10:40], x.sum(dim=0), atol=1e-5)
    assert (memory[:10] == 7).all() and (memory[40:] == 7).all()


@pytest.mark.parametrize(("rows", "outputs", "inputs"), [(256, 64, 128), (130, 72, 136), (5, 200, 264), (1, 8, 8)])
def test_gradients_of_inputs_are_those_of_float32(rows: int, outputs: int, inputs: int) -> None:
    """Rows, sums and columns that fill no whole tile."""
    d_out, product = normal(rows, outputs).to(HALF), normal(rows, inputs, seed=1).to(HALF)
    weight, bias = (normal(outputs, inputs, seed=2) / outputs**0.5).to(HALF), normal(inputs, seed=3)
    plain = d_out.float() @ weight.float()
    assert fits(d_out, weight)
    assert error(input_gradient.input_gradient(d_out, weight), plain) < TOLERANCE
    leaf = product.float().requires_grad_()
    functional.gelu(leaf + bias).backward(plain)
    assert leaf.grad is not None
    assert error(input_gradient.input_gradient(d_out, weight, product, bias), leaf.grad) < TOLERANCE
    stacked = input_gradient.input_gradient(d_out.view(1, rows, outputs), weight, product.view(1, rows, inputs), bias)
    assert stacked.shape == (1, rows, inputs)


def test_what_the_tma_cannot_read_is_left_to_a_library() -> None:
    half, odd = torch.zeros(4, 16, dtype=HALF), torch.zeros(4, 12, dtype=HALF)
    assert fits(half, half) and not fits(odd, half) and not fits(half, odd)
    assert not fits(half.float(), half) and not fits(half.expand(2, 4, 16), half)


@pytest.mark.parametrize("length", [1, 5, 37])
@pytest.mark.parametrize("n", [1, 3, 400, 2000])
def test_samples_are_divided_into_parts_that_hold_every_token_once(n: int, length: int) -> None:
    parts = normalisation.part_count(n, length)
    assert 1 <= parts <= length and (n * parts >= normalisation.PROGRAMS or parts == length)
    assert parts == 1 or n * (parts - 1) < normalisation.PROGRAMS


@pytest.mark.parametrize(("length", "parts"), [(5, 2), (5, 4), (5, 5), (42, 2)])
def test_sums_over_parts_of_samples_add_up_to_those_over_samples(length: int, parts: int) -> None:
    """With four parts of five tokens, the last part has none; 21 tokens are no multiple of what is taken at a time."""
    n, width = 3, 24
    tokens, update, d_moved, d_normed = (normal(n, length, width, seed=seed) for seed in range(4))
    gain, shift, bias = (normal(width, seed=seed) for seed in range(4, 7))
    moved, _, moments = normalisation.forward(tokens, update, bias, None, shift, gain, 1e-5, torch.float32)

    def backward(rows: int) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        sums = torch.full((2, rows, width), torch.nan, device=DEVICE)
        given = moved, moments, update, bias, None, gain, d_moved, d_normed, (None, sums[0], sums[1])
        slopes = normalisation.backward(*given)
        return *slopes, *sums.view(2, n, -1, width).sum(dim=2)

    for whole, divided in zip(backward(n), backward(n * parts), strict=True):
        assert whole is not None and divided is not None
        assert torch.allclose(whole, divided, atol=1e-4)


@pytest.mark.parametrize(("outputs", "inputs"), [(776, 768), (64, 136)])
def test_gradients_of_wide_and_narrow_weights_are_those_of_float32(outputs: int, inputs: int) -> None:
    rows = 70
    d_out, x = normal(rows, outputs).to(HALF), normal(rows, inputs, seed=1).to(HALF)
    memory = torch.full((outputs * inputs + outputs + 64,), 7.0, device=DEVICE)
    weight, bias = memory[: outputs * inputs].view(outputs, inputs), memory[outputs * inputs : -64]
    assert fits(d_out, x)
    weight_gradient.weight_gradient(d_out, x, weight, bias)
    assert error(weight, d_out.float().T @ x.float()) < 1e-4
    assert error(bias, d_out.float().sum(dim=0)) < 1e-4
    assert (memory[-64:] == 7).all()


def test_sums_of_the_wrong_size_are_refused() -> None:
    with pytest.raises(AssertionError):
        column_sums(normal(3, 8), out=torch.zeros(7, device=DEVICE))


def test_gradients_of_few_symbols_over_many_rows_are_those_of_float64() -> None:
    """More rows than one program per piece takes at once."""
    rows, width = 20_000, 8
    symbols, wide = torch.arange(rows, device=DEVICE) % 3, normal(rows, width)
    found = skinny.outer(symbols, wide, 3)
    true = torch.stack([wide[symbols == symbol].double().sum(dim=0) for symbol in range(3)])
    assert torch.allclose(found[:3].double(), true, atol=1e-2) and found.shape == (4, width)
    assert torch.allclose(found[3].double(), wide.double().sum(dim=0), atol=1e-2)
