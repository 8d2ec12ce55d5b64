"""Products whose weights stay in shared memory: against float32 on a GPU; elsewhere, that they compile for one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

pytest.importorskip("triton")
from twoclocks.kernels import input_gradient, resident_product

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
on_hopper = pytest.mark.skipif(not HOPPER, reason="needs an NVIDIA GPU of the generation Hopper")
SHAPES = [(1, 64, 128), (130, 192, 384), (4736, 384, 1536), (9216, 384, 1152), (20_000, 320, 256), (300, 384, 25_600)]


def operands(rows: int, inputs: int, outputs: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, weight (outputs, inputs) and bias."""
    generator = torch.Generator().manual_seed(rows)
    x, weight = (torch.randn(size, inputs, generator=generator) for size in (rows, outputs))
    bias = torch.randn(outputs, generator=generator)
    return x.bfloat16().cuda(), (weight / inputs**0.5).bfloat16().cuda(), bias.cuda()


def assert_rounded(found: Tensor, true: Tensor) -> None:
    """Whether each number is the true one up to bfloat16's rounding and that of a sum in float32."""
    assert found.dtype == torch.bfloat16 and found.shape == true.shape
    assert float(((found.float() - true).abs() - true.abs() * 2**-8).max()) < 1e-3


def same_every_time(work: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    first = work()
    for _ in range(20):  # groups of warps that overtake each other would not always do so
        assert all(torch.equal(one, other) for one, other in zip(work(), first, strict=True))
    return first


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_products_are_those_of_float32(rows: int, inputs: int, outputs: int) -> None:
    x, weight, bias = operands(rows, inputs, outputs)
    assert resident_product.fits(x, weight, inputs, outputs)
    true = x.float() @ weight.float().T
    (out,) = same_every_time(lambda: (resident_product.linear(x, weight, bias),))
    assert_rounded(out, true + bias)
    (product,) = same_every_time(lambda: (resident_product.linear(x, weight, None),))
    assert_rounded(product, true)
    (hidden,) = same_every_time(lambda: (resident_product.activate(x, weight, bias),))
    assert_rounded(hidden, functional.gelu(true + bias))
    with_samples = resident_product.linear(x.view(1, rows, inputs), weight, bias)
    assert torch.equal(with_samples, out.view(1, rows, outputs))


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize(("rows", "outputs", "inputs"), SHAPES)
def test_gradients_behind_gelu_are_those_of_float32(rows: int, outputs: int, inputs: int) -> None:
    d_out, turned, bias = operands(rows, outputs, inputs)
    weight, product = turned.T.contiguous(), torch.randn(rows, inputs, device="cuda").bfloat16()
    assert resident_product.fits(d_out, weight, *weight.shape)
    leaf = product.float().requires_grad_()
    functional.gelu(leaf + bias).backward(d_out.float() @ weight.float())
    (found,) = same_every_time(lambda: (resident_product.behind_gelu(d_out, weight, product, bias),))
    assert leaf.grad is not None
    assert_rounded(found, leaf.grad)
    assert_rounded(input_gradient.input_gradient(d_out, weight, product, bias), leaf.grad)


@pytest.mark.gpu
@on_hopper
def test_infinite_and_undefined_numbers_stay_so() -> None:
    x, weight, bias = operands(256, 64, 128)
    x[3, 5], x[200, 7] = float("nan"), 3e38
    weight[0], weight[1] = 100.0, -100.0
    product, hidden = resident_product.linear(x, weight, None), resident_product.activate(x, weight, bias)
    true = functional.gelu(x.float() @ weight.float().T + bias)
    assert product[3].isnan().all() and product[200, 0] == float("inf") == hidden[200, 0]
    assert torch.equal(hidden.isnan(), true.isnan())  # none in other rows; of −∞ as in torch
    assert product[:3].isfinite().all() and hidden[4:200].isfinite().all()


def test_what_the_kernels_cannot_do_is_left_to_others() -> None:
    x, weight = torch.zeros(4, 64, dtype=torch.bfloat16), torch.zeros(128, 64, dtype=torch.bfloat16)
    assert not resident_product.fits(x, weight, 64, 128)  # a CPU
    if HOPPER:
        x, weight = x.cuda(), weight.cuda()
        assert resident_product.fits(x, weight, 64, 128)
        assert not resident_product.fits(x.half(), weight, 64, 128)
        assert not resident_product.fits(x.float(), weight.float(), 64, 128)
        assert not resident_product.fits(x, weight[::2], 64, 128)
        for inputs, outputs in ((64, 120), (72, 128), (448, 128)):
            x, weight, _ = operands(4, inputs, outputs)
            assert not resident_product.fits(x, weight, inputs, outputs)


PROGRAM = """
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
from twoclocks.kernels import resident_product as kernels

def tile(rows, columns):
    return f"tensordesc<bf16[{rows},{columns}],{kernels.LAYOUT!r}>"

for kind, warps in kernels.WARPS.items():
    weight = tile(64, 128) if kind == kernels.SLOPE.value else tile(128, 64)
    types = {"x": tile(128, 64), "weight": weight, "product": tile(128, 64), "out": tile(128, 64), "bias": "*fp32",
             "rows": "i32"}
    chosen = {"COLUMNS": 12, "GROUPS": 11, "CHUNKS": kernels.MOST_INPUTS // 64, "KIND": kind, "WARPS": warps,
              "REGISTERS": kernels.REGISTERS[warps]}
    names = [*types, *chosen]
    source = GluonASTSource(kernels._resident_product, {**types, **dict.fromkeys(chosen, "constexpr")},
                            {(names.index(name),): value for name, value in chosen.items()})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    assert made.metadata.shared <= 227 * 1024, made.metadata.shared
    assert "wgmma.mma_async" in made.asm["ptx"] and "cp.async.bulk.tensor" in made.asm["ptx"]
    print("compiled", kind)
"""


@pytest.mark.slow
def test_kernels_compile_for_hopper_without_one() -> None:
    """Gluon has no interpreter, and is new: a version of Triton that changes it is noticed here."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[:4] == [f"compiled {kind}" for kind in range(4)]
