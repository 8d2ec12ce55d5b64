"""Several threads on the CPU, each with its own samples of an evaluation.

Small networks make many small operations, inside which threads wait for each other most of the time. Between samples
there is nothing to wait for.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import torch
from torch import Tensor

from twoclocks.models.base import Network

Item = TypeVar("Item")
Result = TypeVar("Result")

CORES = torch.get_num_threads()  # as torch finds them, before anybody changes it
WORTHWHILE = 0.25e9  # floating-point operations of a step that are worth a thread of their own


def pool_size(threads: int, parameters: int, tokens: int) -> int:
    """As many threads as asked for, or for 0 as many as a step fills: about 6 operations a parameter and token."""
    return threads or max(1, min(CORES, math.ceil(6 * parameters * tokens / WORTHWHILE)))


class ThreadPool:
    """``size`` threads, in each of which torch uses one core."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pool: ThreadPoolExecutor | None = None  # threads do not survive a fork: made when first needed
        self.stopped = threading.Event()

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The results in the order of the items. After an error or a signal no thread is left at work."""
        if self.size == 1 or len(items) == 1:
            return [work(item) for item in items]
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.size, "twoclocks", initializer=torch.set_num_threads, initargs=(1,))
        self.stopped.clear()
        futures = [self.pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            self.stopped.set()
            for future in futures:
                future.cancel()
            wait(futures)
            raise

    def guarded(self, network: Network) -> Guarded:
        """The network for long work: its next call ends a thread whose pool was stopped."""
        return Guarded(network, self.stopped)


class Guarded:
    """A network that refuses once ``stopped`` is set."""

    def __init__(self, network: Network, stopped: threading.Event) -> None:
        self.network, self.stopped = network, stopped

    def __call__(self, *inputs: Any, **named: Any) -> Tensor:
        if self.stopped.is_set():
            raise CancelledError
        result: Tensor = self.network(*inputs, **named)
        return result

    def new_cache(self) -> Any | None:
        return self.network.new_cache()
