"""Two processes: one observes, both get the decision, and neither waits for ever."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from loops import EVERY, STOP, TRAIN, Net, looks, loss_of, new_monitor, sampler
from torch.nn.parallel import DistributedDataParallel

from twoclocks.integrations.distributed import on_first_rank
from twoclocks.integrations.pytorch import MonitorHook


def train(rank: int) -> dict[str, Any]:
    """A distributed loop with the monitor; gradients are averaged, so a rank that ran on alone would wait."""
    torch.manual_seed(0)
    net = Net()
    model = DistributedDataParallel(net)  # broadcasts buffers in its forward pass: rank 0 alone must not call it
    optimizer = torch.optim.Adam(model.parameters())
    hook = MonitorHook(new_monitor(), sampler, EVERY, model=model)
    for step in range(1, 41):
        optimizer.zero_grad()
        loss_of(model, TRAIN[rank::2]).backward()
        optimizer.step()
        hook.step(step)
        assert hook.step(step) is None  # asked again at the same step: no rank looks twice
        if hook.stop:
            break
    return {"step": step, "looks": looks(hook.watcher.monitor), "decision": hook.watcher.decision.as_dict()}


def fail(rank: int) -> dict[str, Any]:
    def broken(model: Any) -> None:
        assert rank == 0, "only rank 0 samples"
        raise KeyError("no samples today")

    hook = MonitorHook(new_monitor(), broken, 1, model=Net())
    try:
        hook.step(1)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {}


def unsendable(rank: int) -> dict[str, Any]:
    try:
        on_first_rank(lambda: lambda: 0)  # a function cannot be pickled
    except Exception as error:
        return {"error": type(error).__name__}
    return {}


def member(work: Callable[[int], dict[str, Any]], rank: int, place: str, results: Any) -> None:
    torch.set_num_threads(1)
    timeout = timedelta(seconds=30)
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2, timeout=timeout)
    results.put((rank, work(rank)))
    dist.destroy_process_group()


def both(work: Callable[[int], dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What two forked processes return: they share the imports of this one, which take seconds."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    members = [context.Process(target=member, args=(work, rank, str(folder / "place"), results)) for rank in (0, 1)]
    for process in members:
        process.start()
    found = dict(results.get(timeout=60) for _ in members)
    for process in members:
        process.join()
    return [found[0], found[1]]


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork of a process with threads


def test_first_rank_observes_and_both_stop_at_the_same_step(tmp_path: Path) -> None:
    first, second = both(train, tmp_path)
    assert first["step"] == second["step"] == STOP and first["decision"] == second["decision"]
    assert (first["looks"], second["looks"]) == ([4, 8, 12, 16], [])


def test_an_error_on_the_first_rank_reaches_the_other(tmp_path: Path) -> None:
    first, second = both(fail, tmp_path)
    assert first["error"] == "KeyError: 'no samples today'"
    assert second["error"] == "RuntimeError: rank 0: KeyError: 'no samples today'"


def test_a_result_that_cannot_be_sent_is_an_error_on_both(tmp_path: Path) -> None:
    first, second = both(unsendable, tmp_path)
    assert first["error"] in ("AttributeError", "PicklingError") and second["error"] == "RuntimeError"
