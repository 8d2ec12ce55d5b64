"""Under which conditions a loop is measured: how many threads inside operations, which precision of products."""

from __future__ import annotations

import torch

from twoclocks.bench.timing import Work
from twoclocks.bench.workloads import seeded
from twoclocks.runs.assembly import Experiment
from twoclocks.training.thread_pool import CORES


def rivals(plain: Work, device: str) -> dict[str, Work]:
    """The textbook's work as people run it: with all cores or one of them; on a GPU in each precision."""
    if device == "cpu":
        return {"plain": with_threads(plain, CORES), "plain, 1 thread": with_threads(plain, 1)}
    return {
        "plain": with_precision(plain, "highest"),
        "plain TF32": with_precision(plain, "high"),
        "plain bfloat16": with_autocast(plain),
    }


def our_step(experiment: Experiment) -> Work:
    """Our step, with the precision of its own settings, whatever was measured before it."""
    exact = experiment.settings.training.precision == "float32"
    return with_precision(seeded(experiment), "highest" if exact else "high")


def with_threads(work: Work, threads: int) -> Work:
    """The work with so many threads inside of operations; ours, which brings its own, has one."""

    def work_so() -> None:
        torch.set_num_threads(threads)
        try:
            work()
        finally:
            torch.set_num_threads(1)

    return work_so


def with_autocast(work: Work) -> Work:
    def work_so() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            work()

    return with_precision(work_so, "high")


def with_precision(work: Work, precision: str) -> Work:
    def work_so() -> None:
        torch.set_float32_matmul_precision(precision)
        work()

    return work_so
