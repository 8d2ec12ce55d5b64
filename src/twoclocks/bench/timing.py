"""How long something takes: repeated until enough time has passed, the device waited for, the median reported."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

Work = Callable[[], object]


def wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def rate(work: Work, device: str, seconds: float, rounds: int = 5) -> float:
    """Calls per second: the median of several rounds, after one round to warm up."""
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds / (rounds + 1) or not count:
        work()
        wait(device)
        count += 1
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(count):
            work()
        wait(device)  # the host may be ahead of the device within a round, as it is in training
        found.append(count / (time.perf_counter() - begin))
    return statistics.median(found)


def side_by_side(works: Mapping[str, Work], device: str, seconds: float, turns: int = 3) -> dict[str, float]:
    """Calls per second of each, measured in turns, so that a machine that slows down slows them all."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(turns):
        for name, work in works.items():
            found[name].append(rate(work, device, seconds / turns, rounds=3))
    return {name: statistics.median(rates) for name, rates in found.items()}
