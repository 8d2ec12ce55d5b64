"""What a graph holds on to; that it computes the right thing needs a GPU (tests/kernels/test_gpu.py)."""

from __future__ import annotations

import contextlib
import gc
import weakref
from types import SimpleNamespace

import pytest
import torch

from twoclocks.training.capture import Captured


def test_a_graph_keeps_what_its_work_reads_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays read the memory of the capture: were it given back, they would read whatever comes there next."""
    graph = SimpleNamespace(register_generator_state=lambda generator: None, replay=lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "Stream", lambda priority: None)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, stream: contextlib.nullcontext())

    class Work:
        def __init__(self) -> None:
            self.data = torch.zeros(3)

        def __call__(self) -> torch.Tensor:
            return self.data + 1

    work = Work()
    data = weakref.ref(work.data)
    captured = Captured(work)
    del work
    gc.collect()
    assert data() is not None and torch.equal(captured(), torch.ones(3))
