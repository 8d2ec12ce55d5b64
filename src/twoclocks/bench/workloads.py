"""What is measured: presets, and the training step of their runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment

Row = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """A preset, with what is changed of it."""

    label: str
    preset: str
    change: dict[str, Any] = field(default_factory=dict)

    def experiment(self, device: str, **training: Any) -> Experiment:
        changed = {f"training.{key}": value for key, value in training.items()}
        return Experiment(load_settings(self.preset, {**self.change, "training.device": device, **changed}))

    def textbook(self, device: str) -> Experiment:
        """The experiment whose network, data and settings the textbook loop uses."""
        return self.experiment(device, precision="float32", capture=False, kernels="plain")


WORKLOADS = {
    "cpu": [Workload("DiT, demo", "demo"), Workload("GPT, demo", "demo-gpt")],
    "cuda": [
        Workload("DiT-mini, batch 256", "p1-dit-mini"),
        Workload("GPT-mini, batch 256", "p1-gpt-mini", {"training.batch": 256}),
        Workload("GPT-mini, batch 128", "p1-gpt-mini"),
        Workload("DiT-B, batch 256", "p1-dit-b"),
        Workload("MD4, GPT-B of 256 characters, batch 64", "p2-md4-text", {"model.size": "B", "training.average": 0}),
    ],
}


def seeded(experiment: Experiment) -> Callable[[], None]:
    """The step with its stream set as in training: seeding is part of what a step costs."""
    step, number = experiment.make_step(), 0

    def work() -> None:
        nonlocal number
        number += 1
        step(number)

    return work
