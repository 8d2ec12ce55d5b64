"""Speed of a D3PM training step at P2's width: operations per second and share of the GPU's peak, by batch size.

    python benchmarks/unet_speed.py --out results/unet_speed.json

Operations are those of the matrix products, counted from their shapes; a step has three times those of the forward
pass. With P2's batch of 32 strings the step is bound by memory bandwidth: every weight, its gradient and Adam's two
moments are read and written for a few rows. So the bytes that a float32 step must move are counted too: weights are
read in the forward and in the backward pass, and gradients are written; Adam reads weights, gradients and two moments,
and writes all of them but the gradients.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch

from twoclocks.bench.products import layer_shapes
from twoclocks.bench.steps import ceiling
from twoclocks.bench.timing import rate
from twoclocks.core.config import to_mapping
from twoclocks.models.base import parameter_count
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

PASSES = 10  # reads or writes of four bytes per parameter, per step


def tf32_ceiling(side: int = 8192) -> float:
    """Operations per second of a large matrix product in TF32."""
    torch.set_float32_matmul_precision("high")
    left, right = (torch.randn(side, side, device="cuda") for _ in range(2))
    return 2 * side**3 * rate(lambda: torch.mm(left, right), "cuda", 1.0)


def step_row(precision: str, batch: int, width: int, device: str, seconds: float) -> dict[str, Any]:
    """Speed of one configuration."""
    change = {
        "data.n": 4096,
        "model.width": width,
        "training": {"batch": batch, "precision": precision, "device": device},
        "evaluation": {"samples": 1024, "loss_rows": 8},
    }
    experiment = Experiment(load_settings("p2-rhm-l3", change))
    parameters = parameter_count(experiment.network)
    operations = 6 * sum(rows * inputs * outputs for rows, inputs, outputs in layer_shapes(experiment))
    found = rate(partial(experiment.make_step(), 1), device, seconds)  # the same work at every call
    return {
        "precision": precision,
        "batch": batch,
        "width": width,
        "parameters": parameters,
        "steps_per_second": found,
        "operations_per_second": operations * found,
        "bytes_per_second": PASSES * 4 * parameters * found,
        "settings": to_mapping(experiment.settings),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--width", type=int, default=8192)
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 256, 1024, 2048])
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    top = ceiling(arguments.device)
    peaks = {"bfloat16": top["operations_per_second"]}
    if arguments.device != "cpu":
        peaks["tf32"] = tf32_ceiling()
    rows = []
    for precision in peaks:
        for batch in arguments.batches:
            row = step_row(precision, batch, arguments.width, arguments.device, arguments.seconds)
            row["of_ceiling"] = row["operations_per_second"] / peaks[precision]
            row["of_bandwidth"] = row["bytes_per_second"] / top["bytes_per_second"]
            rows.append(row)
            speed = f"{row['steps_per_second']:.1f} steps/s, {row['of_ceiling']:.0%} of its ceiling"
            print(f"{precision}, batch {batch}: {speed}, {row['of_bandwidth']:.0%} of the bandwidth", flush=True)
            if arguments.device != "cpu":
                torch.cuda.empty_cache()
    result = {
        "command": "python benchmarks/unet_speed.py --out results/unet_speed.json",
        "commit": commit(),
        "versions": versions(),
        "machine": machine(arguments.device),
        "ceilings": {**peaks, "bytes_per_second": top["bytes_per_second"]},
        "rows": rows,
    }
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
