"""Which factor of our speed comes from what: from the textbook loop to ours, one change after another."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twoclocks.bench.conditions import our_step
from twoclocks.bench.timing import Work
from twoclocks.bench.workloads import Row, Workload


@dataclass(frozen=True)
class Stage:
    """One loop on the way, and what is new in it."""

    change: str
    loop: str
    training: Mapping[str, Any] | None = None  # settings of our step; None: the loop is measured anyway


PLAIN_KERNELS = {"kernels": "plain", "capture": False}
STAGES = {
    "cpu": [
        Stage("", "plain"),
        Stage("one thread", "plain, 1 thread"),
        Stage("our step", "our step, 1 thread", {"threads": 1, **PLAIN_KERNELS}),
        Stage("fused operations", "our step, 1 thread, fused", {"threads": 1, "capture": False}),
        Stage("recorded operations", "our step, 1 thread, recorded", {"threads": 1}),
        Stage("a process per core", "ours"),
    ],
    "cuda": [
        Stage("", "plain"),
        Stage("our step", "our step, float32", {"precision": "float32", **PLAIN_KERNELS}),
        Stage("TF32", "our step, TF32", {"precision": "tf32", **PLAIN_KERNELS}),
        Stage("bfloat16", "our step, bfloat16", {"precision": "bfloat16", **PLAIN_KERNELS}),
        Stage(
            "CUDA graph",
            "our step, bfloat16, CUDA graph",
            {"precision": "bfloat16", "kernels": "plain", "capture": True},
        ),
        Stage("fused kernels", "ours"),
    ],
}


def stage_loops(workload: Workload, device: str) -> dict[str, Work]:
    """The loops between the textbook's and ours."""
    return {
        stage.loop: our_step(workload.experiment(device, **stage.training))
        for stage in STAGES[device]
        if stage.training is not None
    }


def factor_rows(rates: Mapping[str, float], device: str) -> list[Row]:
    """Steps per second of each stage, and the factor to the stage before; their product is ours over plain."""
    stages = STAGES[device]
    rows: list[Row] = [
        {"change": stage.change, "loop": stage.loop, "steps_per_second": rates[stage.loop]} for stage in stages
    ]
    for before, after in itertools.pairwise(rows):
        after["factor"] = after["steps_per_second"] / before["steps_per_second"]
    return rows


def factors_in_words(rows: list[Row]) -> str:
    """Such as ``1.89× over plain: 0.90× from our step, 2.10× from a process per core.``"""
    whole = rows[-1]["steps_per_second"] / rows[0]["steps_per_second"]
    parts = ", ".join(f"{row['factor']:.2f}× from {row['change']}" for row in rows[1:])
    return f"Ours is {whole:.2f}× as fast as {rows[0]['loop']}: {parts}."
