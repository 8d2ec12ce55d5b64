"""What a look of the monitor costs beside the sampling that it needs, for data of several kinds.

    python benchmarks/monitor_cost.py --out results/monitor_cost.json

Each look and each sampler is timed in the same process, in turns; the table in docs/monitor.md gives their ratios.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

import twoclocks as tc
from twoclocks.monitor import PerceptualHash, Verbatim
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

ROUNDS = 3
SAMPLER_STEPS = 18  # network evaluations per sample: EDM's published number for CIFAR-10 is 35 with this many steps


@dataclass(frozen=True)
class Case:
    """One kind of data: a monitor, samples, and a network that would make them."""

    name: str
    criterion: str
    rows: int
    samples: Any
    monitor: Callable[[], tc.Monitor]
    evaluate: Callable[[], Any]  # one evaluation of the network for ``batch`` samples
    batch: int
    evaluations: int  # per sample
    network: str


def parameters(network: nn.Module) -> str:
    return f"{sum(p.numel() for p in network.parameters()) / 1e6:.1f}M parameters"


def cases() -> list[Case]:
    rng = np.random.default_rng(0)
    return [symbols(), digits(rng), images(rng), large_images(rng), texts(rng)]


def symbols() -> Case:
    rule = tc.rules.create("parity", length=36, group=3)
    train = tc.data.training_set(rule, n=4096, seed=0)
    network = nn.Sequential(nn.Linear(36, 384), nn.SiLU(), nn.Linear(384, 384), nn.SiLU(), nn.Linear(384, 36))
    x = torch.randn(2048, 36)
    return Case(
        "36 symbols",
        "exact",
        4096,
        rule.sample(2048, seed=1),
        lambda: tc.Monitor(train, rule),
        lambda: network(x),
        2048,
        SAMPLER_STEPS,
        f"MLP of {parameters(network)}",
    )


def digits(rng: np.random.Generator) -> Case:
    train, held_out = (rng.normal(size=(n, 8, 8)).astype(np.float32) for n in (1500, 297))
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 1024), nn.SiLU(), nn.Linear(1024, 1024), nn.SiLU(), nn.Linear(1024, 64)
    )
    x = torch.randn(512, 8, 8)
    return Case(
        "images 8×8",
        "ratio, calibrated",
        1500,
        rng.normal(size=(512, 8, 8)).astype(np.float32),
        lambda: tc.Monitor(train, held_out=held_out),
        lambda: network(x),
        512,
        SAMPLER_STEPS,
        f"MLP of {parameters(network)}",
    )


def unet(size: int, widths: tuple[int, ...]) -> nn.Module:
    from diffusers import UNet2DModel

    return UNet2DModel(sample_size=size, in_channels=3, out_channels=3, block_out_channels=widths)


def images(rng: np.random.Generator) -> Case:
    train = rng.normal(size=(50_000, 3, 32, 32)).astype(np.float32)
    network = unet(32, (64, 128, 128, 128))
    x = torch.randn(8, 3, 32, 32)
    return Case(
        "images 3×32×32",
        "ratio",
        50_000,
        rng.normal(size=(512, 3, 32, 32)).astype(np.float32),
        lambda: tc.Monitor(train, copies="ratio"),
        lambda: network(x, 10).sample,
        8,
        SAMPLER_STEPS,
        f"U-Net of {parameters(network)}",
    )


def large_images(rng: np.random.Generator) -> Case:
    train = rng.normal(size=(500, 3, 128, 128)).astype(np.float32)
    network = unet(128, (64, 128, 128, 128))
    x = torch.randn(1, 3, 128, 128)
    return Case(
        "images 3×128×128",
        "perceptual hash",
        500,
        rng.normal(size=(64, 3, 128, 128)).astype(np.float32),
        lambda: tc.Monitor(train, copies=PerceptualHash()),
        lambda: network(x, 10).sample,
        1,
        SAMPLER_STEPS,
        f"U-Net of {parameters(network)}",
    )


def texts(rng: np.random.Generator) -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    train = [rng.integers(0, 5000, rng.integers(80, 121)).tolist() for _ in range(10_000)]
    samples = [rng.integers(0, 5000, 100).tolist() for _ in range(128)] + [row[:70] for row in train[:128]]
    network = GPT2LMHeadModel(GPT2Config(vocab_size=5000, n_positions=128, n_embd=256, n_layer=6, n_head=8)).eval()
    x = torch.randint(0, 5000, (256, 1))
    return Case(
        "texts of 100 tokens",
        "50 tokens in a row",
        10_000,
        samples,
        lambda: tc.Monitor(train, copies=Verbatim(50)),
        lambda: network(x).logits,
        256,
        100,
        f"GPT-2 of {parameters(network)}",
    )


def seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


@torch.no_grad()
def measured(case: Case) -> dict[str, Any]:
    begin = time.perf_counter()
    monitor = case.monitor()
    made = time.perf_counter() - begin
    case.evaluate()
    monitor.observe(0, case.samples)
    looks, evaluations = [], []
    for step in range(1, ROUNDS + 1):
        evaluations.append(seconds(case.evaluate))
        looks.append(seconds(lambda step=step: monitor.observe(step, case.samples)))
    look, evaluation = median(looks), median(evaluations)
    sampling = evaluation / case.batch * len(case.samples) * case.evaluations
    return {
        "data": case.name,
        "criterion": case.criterion,
        "training rows": case.rows,
        "samples": len(case.samples),
        "network": case.network,
        "evaluations per sample": case.evaluations,
        "construction / sampling": made / sampling,
        "look / sampling": look / sampling,
        "seconds": {"construction": made, "look": looks, "evaluation of a batch": evaluations, "batch": case.batch},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    logging.getLogger("twoclocks").setLevel(logging.ERROR)
    rows = []
    for case in cases():
        rows.append(measured(case))
        print(rows[-1], flush=True)
    result = {
        "command": f"python benchmarks/monitor_cost.py --out results/{arguments.out.name}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cpu"),
        "rounds": ROUNDS,
        "rows": rows,
    }
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
