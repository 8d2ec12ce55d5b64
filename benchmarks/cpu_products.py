"""Matrix products of the demo's layers on one CPU core: torch's own, which are MKL's, and oneDNN's.

    python benchmarks/cpu_products.py --out results/cpu_products.json

Forward, and for the gradients of inputs and weights; the ways are measured in turns.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from twoclocks.bench.timing import Work, side_by_side
from twoclocks.kernels.cpu_functions import has_onednn, onednn_product, onednn_weight_gradient
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

SHAPES = {  # rows, inputs, outputs: half a batch, as each of two processes computes it
    "DiT, attention out": (384, 48, 48),
    "DiT, attention in": (384, 48, 144),
    "DiT, MLP in": (384, 48, 192),
    "DiT, MLP out": (384, 192, 48),
    "GPT, attention in": (768, 64, 192),
    "GPT, MLP in": (768, 64, 256),
    "GPT, MLP out": (768, 256, 64),
    "large": (1024, 1024, 1024),
}


def own_gradients(d_out: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    return d_out @ weight, d_out.t() @ x, d_out.sum(dim=0)


def onednn_gradients(d_out: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    return onednn_product(d_out, weight.t()), onednn_weight_gradient(d_out, x), d_out.sum(dim=0)


def row(label: str, shape: tuple[int, int, int], seconds: float) -> dict[str, Any]:
    """Billions of operations per second of each way."""
    rows, inputs, outputs = shape
    x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    d_out, operations = torch.randn(rows, outputs), 2 * rows * inputs * outputs
    works: dict[str, tuple[Work, int]] = {
        "forward, torch": (lambda: torch.nn.functional.linear(x, weight, bias), 1),
        "forward, oneDNN": (lambda: onednn_product(x, weight, bias), 1),
        "forward with GELU, torch": (lambda: torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias)), 1),
        "forward with GELU, oneDNN": (lambda: onednn_product(x, weight, bias, "gelu"), 1),
        "gradients, torch": (lambda: own_gradients(d_out, x, weight), 2),
        "gradients, oneDNN": (lambda: onednn_gradients(d_out, x, weight), 2),
    }
    rates = side_by_side({name: work for name, (work, _) in works.items()}, "cpu", seconds)
    found = {name: round(rates[name] * count * operations / 1e9, 1) for name, (_, count) in works.items()}
    return {"layer": label, "rows": rows, "inputs": inputs, "outputs": outputs, "gigaflops": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1.0, help="time of each way")
    asked = parser.parse_args()
    if not has_onednn():
        raise SystemExit("this build of torch has no oneDNN")
    torch.set_num_threads(1)
    with torch.no_grad():
        rows = [row(label, shape, asked.seconds) for label, shape in SHAPES.items()]
    for one in rows:
        print(one["layer"], one["gigaflops"])
    origin = {"commit": commit(), "versions": versions(), "machine": machine("cpu")}
    write_json(asked.out, {"command": f"python benchmarks/cpu_products.py --out {asked.out}", **origin, "rows": rows})


if __name__ == "__main__":
    main()
