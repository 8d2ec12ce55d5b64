"""The textbook loop under ``torch.compile``, as a stronger baseline; where that fails, the reason in words."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from twoclocks.bench.conditions import with_autocast, with_threads
from twoclocks.bench.reference import Loss, plain_step
from twoclocks.bench.timing import Work, wait
from twoclocks.bench.workloads import Row, Workload
from twoclocks.training.thread_pool import CORES

MODES = {  # by device: the loops and their mode of torch.compile; on a GPU in the precision of our presets
    "cpu": {"compiled": "default"},
    "cuda": {"compiled bfloat16": "default", "compiled bfloat16, CUDA graphs": "reduce-overhead"},
}
WARM_UP = 3  # steps after the first: CUDA graphs are recorded in them
MOST_CHARACTERS = 200  # of a reason


@contextmanager
def compiled_loops(workload: Workload, device: str, wanted: bool) -> Iterator[tuple[dict[str, Work], dict[str, Row]]]:
    """The loops that could be compiled, and for each loop its seconds to the first step, or why there is none."""
    works: dict[str, Work] = {}
    notes: dict[str, Row] = {}
    for name, mode in MODES[device].items() if wanted else ():
        begin = time.perf_counter()
        try:
            work = compiled_loop(workload, device, mode)
            with uncached():
                work()
            wait(device)
            notes[name] = {"mode": mode, "seconds_to_first_step": time.perf_counter() - begin}
            for _ in range(WARM_UP):
                work()
            wait(device)
        except Exception as error:  # whatever is missing on this machine; the other loops are measured all the same
            notes[name] = {"mode": mode, "failed": reason(error)}
        else:
            works[name] = work
    yield works, notes
    if wanted:
        torch.compiler.reset()  # other workloads compile the same functions for other shapes


def compiled_loop(workload: Workload, device: str, mode: str) -> Work:
    """A step of the textbook loop whose network and loss are compiled together."""

    def transform(loss: Loss) -> Loss:
        compiled: Callable[..., Any] = torch.compile(loss, dynamic=False, mode=mode)
        return compiled

    plain = plain_step(workload.textbook(device), transform)

    def work() -> None:
        torch.compiler.cudagraph_mark_step_begin()  # results of the last step may be overwritten
        plain()

    return with_threads(work, CORES) if device == "cpu" else with_autocast(work)


@contextmanager
def uncached() -> Iterator[None]:
    """Compile as on a machine that never did: the time to the first step is that of a first run."""
    config: Any = torch.compiler.config
    with warnings.catch_warnings(), config.patch(force_disable_caches=True):
        warnings.simplefilter("ignore", UserWarning)  # torch says which caches it does not use
        yield


def reason(error: Exception) -> str:
    """The first line of an error."""
    words = str(error).strip().partition("\n")[0] or "no reason given"
    return f"{type(error).__name__}: {words}"[:MOST_CHARACTERS]
