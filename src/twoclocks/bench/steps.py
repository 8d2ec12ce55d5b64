"""Our training step and evaluation beside the textbook's and beside the ceiling, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from twoclocks.bench.reference import plain_samples, plain_step
from twoclocks.bench.timing import Work, rate, side_by_side, wait
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.training.capture import Captured
from twoclocks.training.thread_pool import CORES

Row = dict[str, Any]
LARGE = {"cpu": 1024, "cuda": 8192}  # side of the product that measures what a device can do


@dataclass(frozen=True)
class Workload:
    """A preset, with what is changed of it."""

    label: str
    preset: str
    change: dict[str, Any] = field(default_factory=dict)

    def experiment(self, device: str, **training: Any) -> Experiment:
        changed = {f"training.{key}": value for key, value in training.items()}
        return Experiment(load_settings(self.preset, {**self.change, "training.device": device, **changed}))


WORKLOADS = {
    "cpu": [Workload("DiT, demo", "demo"), Workload("GPT, demo", "demo-gpt")],
    "cuda": [
        Workload("DiT-mini, batch 256", "p1-dit-mini"),
        Workload("GPT-mini, batch 256", "p1-gpt-mini", {"training.batch": 256}),
        Workload("GPT-mini, batch 128", "p1-gpt-mini"),
        Workload("DiT-B, batch 256", "p1-dit-b"),
    ],
}


def seeded(experiment: Experiment) -> Callable[[], None]:
    """The step with its stream set as in training: seeding is part of what a step costs."""
    step, number = experiment.make_step(), 0

    def work() -> None:
        nonlocal number
        number += 1
        step(number)

    return work


def step_row(workload: Workload, device: str, seconds: float) -> Row:
    """Steps per second of our loop, of the textbook's, and of its matrix products alone."""
    begin = time.perf_counter()
    ours = workload.experiment(device)
    our_step = seeded(ours)
    our_step()
    wait(device)
    start = time.perf_counter() - begin
    exact = workload.experiment(device, precision="float32", capture=False, kernels="plain")
    rates = side_by_side({"ours": our_step, **rivals(plain_step(exact), device)}, device, seconds)
    torch.set_num_threads(CORES)
    products, operations = products_alone(exact, torch.bfloat16 if device != "cpu" else torch.float32)
    rates["products alone"] = rate(products, device, seconds / 3)
    best_plain = max(value for name, value in rates.items() if name.startswith("plain"))
    return {
        "work": workload.label,
        "threads": ours.pool.size,
        "steps_per_second": rates,
        "over_best_plain": rates["ours"] / best_plain,
        "of_products": rates["ours"] / rates["products alone"],
        "operations_per_step": operations,
        "operations_per_second": rates["ours"] * operations,
        "seconds_to_first_step": start,
    }


def rivals(plain: Work, device: str) -> dict[str, Work]:
    """The textbook's work as people run it: with all cores or one of them; on a GPU in each precision."""
    if device == "cpu":
        return {"plain": with_threads(plain, CORES), "plain, 1 thread": with_threads(plain, 1)}
    return {
        "plain": with_precision(plain, "highest"),
        "plain TF32": with_precision(plain, "high"),
        "plain bfloat16": with_autocast(plain),
    }


def with_threads(work: Work, threads: int) -> Work:
    """The work with so many threads inside of operations; ours, which brings its own, has one."""

    def work_so() -> None:
        torch.set_num_threads(threads)
        work()
        torch.set_num_threads(1)

    return work_so


def with_autocast(work: Work) -> Work:
    def work_so() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            work()

    return work_so


def with_precision(step: Work, precision: str) -> Work:
    def work() -> None:
        torch.set_float32_matmul_precision(precision)
        step()

    return work


def products_alone(experiment: Experiment, dtype: torch.dtype) -> tuple[Work, int]:
    """All matrix products of a step, forward and back, on random data; and how many operations they are."""
    shapes = layer_shapes(experiment)
    device = experiment.device
    factors = [
        [torch.randn(size, device=device).to(dtype) for size in ((rows, inputs), (outputs, inputs), (rows, outputs))]
        for rows, inputs, outputs in shapes
    ]

    def work() -> None:
        for x, weight, slope in factors:
            torch.mm(x, weight.T)
            torch.mm(slope, weight)
            torch.mm(slope.T, x)

    work()
    operations = sum(6 * rows * inputs * outputs for rows, inputs, outputs in shapes)
    return (Captured(work) if device != "cpu" else work), operations


def layer_shapes(experiment: Experiment) -> list[tuple[int, int, int]]:
    """(rows, inputs, outputs) of every linear layer in one pass over a batch; layers of one column are no products."""
    found: list[tuple[int, int, int]] = []

    def note(layer: nn.Module, given: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        assert isinstance(layer, nn.Linear)
        found.append((given[0].numel() // layer.in_features, layer.in_features, layer.out_features))

    layers = [layer for layer in experiment.network.modules() if isinstance(layer, nn.Linear)]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    rows = experiment.train_rows[torch.arange(experiment.settings.training.batch) % len(experiment.train_rows)]
    generator = torch.Generator(experiment.device).manual_seed(0)
    with torch.no_grad():
        experiment.objective.loss(experiment.network, experiment.encode(rows), generator)
    for hook in hooks:
        hook.remove()
    return [shape for shape in found if min(shape[1:]) >= 16]


@torch.no_grad()
def evaluation_row(workload: Workload, device: str) -> Row:
    """Seconds that a run's samples take, ours and the textbook's."""
    ours = workload.experiment(device)
    exact = workload.experiment(device, precision="float32", capture=False, kernels="plain")
    ours.sample()
    works = {"ours": ours.sample, **rivals(partial(plain_samples, exact), device)}
    seconds = {name: 1 / value for name, value in side_by_side(works, device, 0.0, turns=1).items()}
    return {
        "work": workload.label,
        "samples": ours.settings.evaluation.samples,
        "seconds": seconds,
        "over_best_plain": min(value for name, value in seconds.items() if name.startswith("plain")) / seconds["ours"],
    }


def ceiling(device: str) -> Row:
    """What large matrix products reach: operations per second, and bytes per second of a copy."""
    side, dtype = LARGE[device], torch.bfloat16 if device != "cpu" else torch.float32
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    source = torch.randn(1 << 24, device=device)
    target = torch.empty_like(source)
    return {
        "product": f"{side}×{side}×{side} in {str(dtype).removeprefix('torch.')}",
        "operations_per_second": 2 * side**3 * rate(lambda: torch.mm(left, right), device, 1.0),
        "bytes_per_second": 2 * source.nbytes * rate(lambda: torch.mul(source, 2.0, out=target), device, 0.5),
    }
