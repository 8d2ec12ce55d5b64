"""Our training step and evaluation beside the textbook's and beside the ceiling, in one run."""

from __future__ import annotations

import time
from functools import partial

import torch

from twoclocks.bench.compiled import compiled_loops
from twoclocks.bench.conditions import our_step, rivals
from twoclocks.bench.factors import factor_rows, stage_loops
from twoclocks.bench.products import products_alone
from twoclocks.bench.reference import plain_samples, plain_step
from twoclocks.bench.timing import Work, rate, side_by_side, wait
from twoclocks.bench.workloads import Row, Workload

LARGE = {"cpu": 1024, "cuda": 8192}  # side of the product that measures what a device can do
OURS, PLAIN, COMPILED, PRODUCTS = "ours", "plain", "compiled", "products alone"  # the latter three begin a loop's name


def step_row(workload: Workload, device: str, seconds: float, compiled: bool = False) -> Row:
    """Steps per second of our loop, the textbook's, what lies between them, and the matrix products alone, in turns."""
    begin = time.perf_counter()
    experiment = workload.experiment(device)
    ours = our_step(experiment)
    ours()
    wait(device)
    start = time.perf_counter() - begin
    textbook = workload.textbook(device)
    products, operations = products_alone(textbook, experiment.pool)
    with compiled_loops(workload, device, compiled) as (compiled_works, compiled_notes):
        loops: dict[str, Work] = {OURS: ours, **rivals(plain_step(textbook), device), **compiled_works}
        rates = side_by_side({**loops, **stage_loops(workload, device), **products}, device, seconds)
    bound = max(products, key=lambda way: rates[way])
    found = {**{name: rates[name] for name in loops}, PRODUCTS: rates[bound]}
    best_plain = best(found, PLAIN)
    row = {
        "work": workload.label,
        "threads": experiment.pool.size,
        "steps_per_second": found,
        "over_best_plain": found[OURS] / found[best_plain],
        "best_plain": best_plain,
        "compiled": compiled_notes,
        "factors": factor_rows(rates, device),
        "products_alone": {way: rates[way] for way in products},
        "of_products": found[OURS] / rates[bound],
        "operations_per_step": operations,
        "operations_per_second": found[OURS] * operations,
        "seconds_to_first_step": start,
    }
    if compiled_works:
        best_compiled = best(found, COMPILED)
        row |= {"over_best_compiled": found[OURS] / found[best_compiled], "best_compiled": best_compiled}
    return row


def best(rates: dict[str, float], kind: str) -> str:
    """The fastest loop whose name begins with a word."""
    return max((name for name in rates if name.startswith(kind)), key=lambda name: rates[name])


@torch.no_grad()
def evaluation_row(workload: Workload, device: str) -> Row:
    """Seconds that a run's samples take, ours and the textbook's."""
    ours = workload.experiment(device)
    ours.sample()
    works = {OURS: ours.sample, **rivals(partial(plain_samples, workload.textbook(device)), device)}
    rates = side_by_side(works, device, 0.0, turns=1)
    best_plain = best(rates, PLAIN)
    return {
        "work": workload.label,
        "samples": ours.settings.evaluation.samples,
        "seconds": {name: 1 / value for name, value in rates.items()},
        "over_best_plain": rates[OURS] / rates[best_plain],
        "best_plain": best_plain,
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
