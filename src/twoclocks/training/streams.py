"""CUDA streams of runs that are trained together: what waits in different streams is computed at the same time."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


class Streams:
    """A stream per run, for all of its work; a CPU has none, and works in the order in which it is asked.

    To be made when all runs stand ready: whatever the GPU was asked before is done then. Afterwards no run reads what
    another wrote, so no stream waits for another.
    """

    def __init__(self, count: int, on_gpu: bool) -> None:
        if on_gpu:
            torch.cuda.synchronize()
        self.streams = [torch.cuda.Stream() for _ in range(count)] if on_gpu else []

    def of(self, place: int) -> AbstractContextManager[Any]:
        """Inside, the GPU is asked to work in the stream of this run."""
        return torch.cuda.stream(self.streams[place]) if self.streams else nullcontext()
