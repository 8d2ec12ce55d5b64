"""Speed of a feed-forward branch's products with GELU inside of them, beside a library's product and a kernel for GELU.

    python benchmarks/feed_forward_products.py --out results/feed_forward_products.json        # needs a GPU

Forward: GELU(x Wᵀ + bias), and x Wᵀ for the backward pass. Backward: (d W) ⊙ GELU′(x Wᵀ + bias). Programs stay on their
multiprocessor and go from tile to tile, so that the copy engine loads the next one while GELU is computed. Every
candidate is compared with float32 before it is timed; times are those of replays of a CUDA graph, in turns, with inputs
that do not fit into the cache together.
"""

# ruff: noqa: N803 (what a kernel is compiled for is in capitals)

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional
from triton.tools.tensor_descriptor import TensorDescriptor

from twoclocks.bench.timing import side_by_side
from twoclocks.kernels import activation
from twoclocks.kernels.activation import gelu, gelu_slope
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

SHAPES = {  # rows, width, hidden width
    "DiT-mini, batch 256": (256 * 36, 384, 1536),
    "GPT-mini, batch 128": (128 * 36, 384, 1536),
    "DiT-B, batch 256": (256 * 36, 768, 3072),
}
CACHE = 60e6  # bytes of an H200's second-level cache
TOLERANCE = 1e-2  # relative, of results in bfloat16


@dataclass(frozen=True)
class Tiling:
    """How a product is cut: a tile of the result, entries of the sum at a time, and the size of a program."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    persistent: bool = True


TILINGS = tuple(
    Tiling(rows, columns, depth, warps, stages, persistent)
    for rows, columns, depth, warps, stages in (
        (128, 128, 64, 4, 4),
        (128, 128, 64, 8, 4),
        (128, 256, 64, 8, 3),
        (256, 128, 64, 8, 3),
        (64, 256, 64, 4, 4),
        (128, 128, 128, 8, 3),
    )
    for persistent in (True, False)
)


@triton.jit
def _expand(
    x, weight, bias, product, activated, columns, DEPTH: tl.constexpr, INNER: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, PROGRAMS: tl.constexpr, TURNS: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(columns, COLUMNS)
    for turn in tl.range(0, TURNS):  # a tile beyond the last has nothing that is stored
        tile = tl.program_id(0) + turn * PROGRAMS
        top, left = (tile // across) * ROWS, (tile % across) * COLUMNS
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for inner in range(0, INNER, DEPTH):
            total = tl.dot(x.load([top, inner]), weight.load([left, inner]).T, total)
        stored = total.to(product.dtype)
        product.store([top, left], stored)
        column = left + tl.arange(0, COLUMNS)
        added = tl.load(bias + column, mask=column < columns, other=0.0).to(tl.float32)[None, :]
        activated.store([top, left], gelu(stored.to(tl.float32) + added).to(activated.dtype))


@triton.jit
def _contract_backward(
    d_out, weight, bias, product, d_product, columns, DEPTH: tl.constexpr, INNER: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, PROGRAMS: tl.constexpr, TURNS: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(columns, COLUMNS)
    for turn in tl.range(0, TURNS):  # a tile beyond the last has nothing that is stored
        tile = tl.program_id(0) + turn * PROGRAMS
        top, left = (tile // across) * ROWS, (tile % across) * COLUMNS
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for inner in range(0, INNER, DEPTH):
            total = tl.dot(d_out.load([top, inner]), weight.load([inner, left]), total)
        column = left + tl.arange(0, COLUMNS)
        added = tl.load(bias + column, mask=column < columns, other=0.0).to(tl.float32)[None, :]
        slope = gelu_slope(product.load([top, left]).to(tl.float32) + added)
        d_product.store([top, left], (total * slope).to(d_product.dtype))


def launch(kernel: Any, tensors: tuple[Tensor, ...], blocks: tuple[list[int] | None, ...], tiling: Tiling) -> None:
    """Start a kernel on tensors; with a block, a tensor is read and written by the copy engine in such pieces."""
    result, inner = tensors[-1], tensors[0].shape[1]
    rows, columns = result.shape
    tiles = triton.cdiv(rows, tiling.rows) * triton.cdiv(columns, tiling.columns)
    processors = torch.cuda.get_device_properties(0).multi_processor_count if result.is_cuda else 2
    programs = min(processors, tiles) if tiling.persistent else tiles
    given = [
        tensor if block is None else TensorDescriptor.from_tensor(tensor, block)
        for tensor, block in zip(tensors, blocks, strict=True)
    ]
    kernel[(programs,)](
        *given, columns, DEPTH=tiling.depth, INNER=inner, ROWS=tiling.rows, COLUMNS=tiling.columns,
        PROGRAMS=programs, TURNS=triton.cdiv(tiles, programs), num_warps=tiling.warps, num_stages=tiling.stages,
    )  # fmt: skip


def expand(x: Tensor, weight: Tensor, bias: Tensor, tiling: Tiling) -> tuple[Tensor, Tensor]:
    """x Wᵀ (rows, hidden) of x (rows, width) and W (hidden, width), and GELU of it with the bias."""
    product = x.new_empty(len(x), len(weight))
    activated = torch.empty_like(product)
    tile = [tiling.rows, tiling.columns]
    blocks = [tiling.rows, tiling.depth], [tiling.columns, tiling.depth], None, tile, tile
    launch(_expand, (x, weight, bias, product, activated), blocks, tiling)
    return product, activated


def contract_backward(d_out: Tensor, weight: Tensor, bias: Tensor, product: Tensor, tiling: Tiling) -> Tensor:
    """The gradient of ``product`` (rows, hidden); d_out (rows, width), W (width, hidden) of the second layer."""
    d_product = torch.empty_like(product)
    tile = [tiling.rows, tiling.columns]
    blocks = [tiling.rows, tiling.depth], [tiling.depth, tiling.columns], None, tile, tile
    launch(_contract_backward, (d_out, weight, bias, product, d_product), blocks, tiling)
    return d_product


@dataclass(frozen=True)
class Case:
    """Random inputs of both passes."""

    x: Tensor
    first: Tensor  # (hidden, width)
    bias: Tensor
    product: Tensor
    d_out: Tensor
    second: Tensor  # (width, hidden)


def make_case(shape: tuple[int, int, int], seed: int, device: str, dtype: torch.dtype) -> Case:
    rows, width, hidden = shape
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, device=device)

    x, first, bias = normal(rows, width), normal(hidden, width) / width**0.5, normal(hidden)
    d_out, second = normal(rows, width), normal(width, hidden) / width**0.5
    half = [part.to(dtype) for part in (x, first, x @ first.T, d_out, second)]
    return Case(half[0], half[1], bias, *half[2:])


def errors(case: Case, tiling: Tiling) -> dict[str, float]:
    """Largest relative error ‖found − true‖ / ‖true‖ of each pass, against float32."""
    product, activated = expand(case.x, case.first, case.bias, tiling)
    true_product = case.x.float() @ case.first.float().T
    true_activated = functional.gelu(true_product + case.bias)
    leaf = case.product.float().requires_grad_()
    functional.gelu(leaf + case.bias).backward(case.d_out.float() @ case.second.float())
    assert leaf.grad is not None
    slope = contract_backward(case.d_out, case.second, case.bias, case.product, tiling)

    def error(found: Tensor, true: Tensor) -> float:
        return float((found.float() - true).norm() / true.norm())

    return {
        "forward": max(error(product, true_product), error(activated, true_activated)),
        "backward": error(slope, leaf.grad),
    }


def library_forward(case: Case) -> Tensor:
    return activation.forward(case.x @ case.first.T, case.bias)


def library_backward(case: Case) -> Tensor:
    return activation.backward(case.product, case.bias, case.d_out @ case.second)


def replayed(work: Callable[[Case], object], cases: list[Case]) -> Callable[[], None]:
    """A CUDA graph that does the work for every case, one after the other."""
    for case in cases:
        work(case)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for case in cases:
            work(case)
    return graph.replay


def measure(name: str, shape: tuple[int, int, int], seconds: float) -> dict[str, Any]:
    """Microseconds of both passes with the library and with every tiling that works."""
    rows, width, hidden = shape
    count = max(2, int(3 * CACHE / (2 * rows * (width + 2 * hidden))))
    cases = [make_case(shape, seed, "cuda", torch.bfloat16) for seed in range(count)]
    works: dict[str, dict[str, Callable[[], None]]] = {
        "forward": {"library": replayed(library_forward, cases)},
        "backward": {"library": replayed(library_backward, cases)},
    }
    failed = {}
    for tiling in TILINGS:
        label = str(tiling)
        try:
            if (worst := max(errors(cases[0], tiling).values())) > TOLERANCE:
                raise ValueError(f"relative error {worst:.2g}")
            forward = replayed(lambda case, t=tiling: expand(case.x, case.first, case.bias, t), cases)  # type: ignore[misc]
            backward = replayed(
                lambda case, t=tiling: contract_backward(case.d_out, case.second, case.bias, case.product, t),  # type: ignore[misc]
                cases,
            )
        except Exception as error:  # such as more shared memory than there is
            failed[label] = f"{type(error).__name__}: {error}"[:200]
            continue
        works["forward"][label], works["backward"][label] = forward, backward
    microseconds = {
        way: {
            label: round(1e6 / rate / count, 2)
            for label, rate in side_by_side(of_way, "cuda", seconds, turns=2).items()
        }
        for way, of_way in works.items()
    }
    return {"work": name, "shape": shape, "microseconds": microseconds, "failed": failed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each candidate and pass (default: 0.2)")
    asked = parser.parse_args()
    rows = []
    for name, shape in SHAPES.items():
        row = measure(name, shape, asked.seconds)
        rows.append(row)
        for way, found in row["microseconds"].items():
            best = min(found, key=found.__getitem__)
            print(f"{name}, {way}: library {found['library']} µs, best {found[best]} µs ({best})")
    command = f"python benchmarks/feed_forward_products.py --seconds {asked.seconds:g} --out {asked.out}"
    origin = {"commit": commit(), "versions": versions(), "machine": machine("cuda")}
    write_json(asked.out, {"command": command, **origin, "tilings": [asdict(one) for one in TILINGS], "rows": rows})


if __name__ == "__main__":
    main()
