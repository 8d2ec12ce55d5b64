"""Work on the GPU recorded as a CUDA graph and replayed: the host starts one graph, not hundreds of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch

Result = TypeVar("Result")


class Captured(Generic[Result]):
    """``work`` as a graph: it reads and writes the same memory at every call, and its result is the same tensor again.

    ``work`` must have run before on the GPU, so that whatever is made at the first use (kernels, workspaces, optimizer
    moments) is there. Its random numbers come from ``generators``, whose seed is read at every replay.
    """

    def __init__(self, work: Callable[[], Result], generators: Sequence[torch.Generator] = ()) -> None:
        self.graph, self.work = torch.cuda.CUDAGraph(), work  # the graph reads what the work holds on to
        for generator in generators:
            self.graph.register_generator_state(generator)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph, stream=torch.cuda.Stream(priority=-1)):  # before what runs beside it
            self.result = work()

    def __call__(self) -> Result:
        self.graph.replay()
        return self.result


class Replayed(Generic[Result]):
    """``work`` that runs as it is the first time, and on a GPU is captured then and replayed from the second time on.

    The first time makes whatever is made at the first use, which a graph cannot hold.
    """

    def __init__(self, work: Callable[[], Result], captures: bool) -> None:
        self.work, self.captures = work, captures
        self.captured: Captured[Result] | None = None

    def __call__(self) -> Result:
        if self.captured is not None:
            return self.captured()
        result = self.work()
        if self.captures:
            self.captured = Captured(self.work)
        return result
