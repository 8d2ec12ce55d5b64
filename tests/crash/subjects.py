"""The small real runs that the campaigns kill, and what must be equal afterwards."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from faults import Fault, FaultyDisk, faulty

from twoclocks.runs import Run, RunSettings, load_settings, run
from twoclocks.store import lock

SERVER = multiprocessing.get_context("forkserver")  # children find torch and pytest imported
SERVER.set_forkserver_preload(["twoclocks.sweeps.work", "torch._dynamo", "safetensors.torch", "pytest"])

SMALL = {
    "rule": {"length": 8, "group": 2},
    "data": {"n": 4},
    "training": {"batch": 8, "learning_rate": 3e-3, "threads": 1},
    "evaluation": {"samples": 100, "loss_rows": 8, "keep_samples": 10},
    "clocks": {"memory_threshold": 0.3, "above_chance": True, "sustain": 1},
    "model": {"width": 8, "depth": 1, "heads": 1},
}


def settings(preset: str = "demo-gpt", steps: int = 4, every: int = 2, **more: Any) -> RunSettings:
    """A run of ``steps`` steps that is evaluated every ``every``; checkpoints come at every step."""
    schedule = {"training.steps": steps, "evaluation.steps": list(range(0, steps + 1, every))}
    sampler = {"objective.sampler_steps": 3} if preset == "demo" else {}
    return load_settings(preset, {**SMALL, **schedule, **sampler, **more})


def train(chosen: RunSettings, out: Path, fault: Fault | None = None) -> FaultyDisk:
    """The run on a disk that counts, and at a fault fails."""
    logging.getLogger("twoclocks").setLevel(logging.ERROR)
    before, lock.TIMEOUT = lock.TIMEOUT, 0.1  # damage to a lock file can make its holder look like one elsewhere
    try:
        with faulty(fault) as disk:
            run(chosen, out, checkpoint_seconds=0)
    finally:
        lock.TIMEOUT = before  # this may be the process of other tests, too
    return disk


def start(chosen: RunSettings, out: Path, fault: Fault | None = None) -> BaseProcess:
    """The run in a process of its own."""
    child = SERVER.Process(target=train, args=(chosen, out, fault))
    child.start()
    return child


def fingerprint(path: Path) -> dict[str, Any]:
    """SHA-256 of all that the promise names: last weights, optimizer and stream; rows; samples; and the clocks."""
    done = Run(path)
    last = path / "checkpoints" / f"step-{done.settings.training.steps:09d}.safetensors"
    stored = [
        last,
        last.with_suffix(".json"),
        path / "metrics.jsonl",
        *sorted((path / "samples").glob("step-*.safetensors")),
    ]
    hashes = {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in stored}
    return {**hashes, "clocks": done.clocks().as_json()}
