"""How the cost of copy detection and of nearest neighbours grows with training rows, row length and samples."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from twoclocks.evaluation import Copies, Neighbours

Row = dict[str, Any]
Axis = Literal["n", "length", "samples"]
LARGE_END = 3  # sizes to which an exponent is fitted: small ones measure the cost of calling, not of growing


class Point(NamedTuple):
    """One size of the problem."""

    n: int  # training rows
    length: int  # entries of a row
    samples: int


Plan = Mapping[str, Mapping[Axis, tuple[Point, ...]]]  # what is compared: what grows: the points of the curve

HEADLINE = Point(n=1_000_000, length=36, samples=100_000)

GROWTH: dict[tuple[str, Axis], tuple[str, Callable[[float], float]]] = {  # what theory says of each curve
    ("prepare copies", "n"): ("N log N", lambda n: n * math.log(n)),
    ("prepare copies", "length"): ("D", lambda length: length),
    ("find copies", "n"): ("log N", math.log),
    ("find copies", "length"): ("D", lambda length: length),
    ("find copies", "samples"): ("samples", lambda samples: samples),
    ("nearest", "n"): ("N", lambda n: n),
    ("nearest", "length"): ("D", lambda length: length),
    ("nearest", "samples"): ("samples", lambda samples: samples),
}


def along(start: Point, axis: Axis, sizes: Iterable[int]) -> tuple[Point, ...]:
    """Points that differ in one size."""
    return tuple(start._replace(**{axis: size}) for size in sizes)


LENGTHS = (36, 72, 144, 288, 576, 1152, 2304)
PLANS: dict[str, Plan] = {  # under a minute on two cores, under 20 s on a GPU
    "cpu": {
        "copies": {
            "n": along(HEADLINE, "n", (10_000, 30_000, 100_000, 300_000, 1_000_000)),
            "length": along(Point(10_000, 36, 10_000), "length", LENGTHS),
            "samples": along(HEADLINE, "samples", (1_000, 10_000, 30_000, 100_000, 300_000)),
        },
        "nearest": {
            "n": along(Point(0, 36, 4096), "n", (1024, 4096, 16_384, 65_536, 262_144)),
            "length": along(Point(4096, 36, 2048), "length", LENGTHS),
            "samples": along(Point(16_384, 36, 0), "samples", (1024, 4096, 16_384, 65_536)),
        },
    },
    "cuda": {
        "copies": {
            "n": along(HEADLINE, "n", (10_000, 100_000, 1_000_000, 4_000_000, 10_000_000)),
            "length": along(Point(100_000, 36, 100_000), "length", LENGTHS),
            "samples": along(HEADLINE, "samples", (10_000, 100_000, 1_000_000, 4_000_000, 10_000_000)),
        },
        "nearest": {
            "n": along(HEADLINE, "n", (10_000, 100_000, 300_000, 1_000_000)),
            "length": along(Point(65_536, 36, 65_536), "length", LENGTHS),
            "samples": along(HEADLINE, "samples", (1_000, 10_000, 30_000, 100_000)),
        },
    },
}


def measure(device: str, plan: Plan | None = None, repeats: int = 3) -> list[Row]:
    """One row for each quantity, curve and size: its median time, and on a GPU its memory beyond the rows themselves.

    Rows are bits, int64 as samples are; one sample in two is a copy.
    """
    plan = PLANS[torch.device(device).type] if plan is None else plan
    measures = {"copies": copies_cost, "nearest": nearest_cost}
    rows: list[Row] = []
    for name, curves in plan.items():
        known: dict[Point, list[Row]] = {}  # curves meet in a point
        for axis, points in curves.items():
            for point in points:
                if point not in known:
                    known[point] = measures[name](point, device, repeats)
                rows += [{"device": device, "against": axis, **row} for row in known[point]]
    return [row for row in rows if (row["quantity"], row["against"]) in GROWTH]


def copies_cost(point: Point, device: str, repeats: int) -> list[Row]:
    train, samples = random_rows(point, device)
    copies = Copies(train, symbols=2)
    prepared = cost(lambda: Copies(train, symbols=2), device, repeats)
    found = cost(lambda: copies.found(samples), device, repeats)
    return [
        {"quantity": "prepare copies", **point._asdict(), **prepared},
        {"quantity": "find copies", **point._asdict(), **found},
    ]


def nearest_cost(point: Point, device: str, repeats: int) -> list[Row]:
    train, samples = random_rows(point, device)
    neighbours = Neighbours(train, symbols=2)
    spent = cost(lambda: neighbours.distance(samples), device, repeats)
    return [{"quantity": "nearest", **point._asdict(), **spent}]


def random_rows(point: Point, device: str) -> tuple[Tensor, Tensor]:
    """Training rows and samples, every second of them a training row."""
    generator = torch.Generator(device).manual_seed(0)
    train = torch.randint(2, (point.n, point.length), device=device, generator=generator)
    samples = torch.randint(2, (point.samples, point.length), device=device, generator=generator)
    which = torch.randint(point.n, (len(samples[::2]),), device=device, generator=generator)
    samples[::2] = train[which]
    return train, samples


def cost(work: Callable[[], object], device: str, repeats: int) -> Row:
    """Median seconds after one call to warm up; and the most bytes that a GPU held at once beyond those before."""
    cuda = torch.device(device).type == "cuda"
    before = 0
    if cuda:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    seconds = []
    for _ in range(1 + repeats):
        begin = time.perf_counter()
        work()
        if cuda:  # the host is ahead of the device until told to wait
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - begin)
    peak = torch.cuda.max_memory_allocated(device) - before if cuda else None
    return {"seconds": statistics.median(seconds[1:]), "peak_bytes": peak}


def curve(rows: list[Row], device: str, quantity: str, against: Axis) -> list[Row]:
    """The rows of one curve, by size."""
    wanted = (device, quantity, against)
    chosen = [row for row in rows if (row["device"], row["quantity"], row["against"]) == wanted]
    return sorted(chosen, key=lambda row: row[against])


def exponents(rows: list[Row]) -> list[Row]:
    """For each curve the power of its growth at the large end, measured and in theory over the same sizes."""
    found = []
    for device in dict.fromkeys(row["device"] for row in rows):
        for (quantity, against), (law, growth) in GROWTH.items():
            chosen = curve(rows, device, quantity, against)[-LARGE_END:]
            if len(chosen) >= 2:
                sizes, seconds = [row[against] for row in chosen], [row["seconds"] for row in chosen]
                found.append(
                    {
                        "device": device,
                        "quantity": quantity,
                        "against": against,
                        "law": law,
                        "measured": slope(sizes, seconds),
                        "theory": slope(sizes, [growth(size) for size in sizes]),
                    }
                )
    return found


def slope(sizes: list[int], costs: list[float]) -> float:
    """Least-squares slope of log cost against log size."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def headline(rows: list[Row]) -> list[Row]:
    """What the headline point costs, each quantity once for each device on which it was measured."""
    found = {
        (row["device"], row["quantity"]): row
        for row in rows
        if Point(row["n"], row["length"], row["samples"]) == HEADLINE
    }
    return list(found.values())
