"""Which cells of a sweep can be trained together in one process, and how many are worth it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from twoclocks.core.config import flat, to_mapping

if TYPE_CHECKING:
    from twoclocks.runs.settings import RunSettings
    from twoclocks.sweeps.grid import Cell

# Settings in which runs that are trained together may differ: what one update computes does not depend on them.
FREE = {
    "data.seed",
    "data.part",
    "training.seed",
    "training.learning_rate",
    "training.weight_decay",
    "evaluation.seed",
}
MOST_TOGETHER = 64
# Operations of a joint step that keep a large GPU busy for about a tenth of a millisecond. Below, most of the time goes
# to the start of kernels. Computed from the speed of its products, not measured.
FILLS = 5e10
SUGGESTED = 32  # most runs, unless more are asked for: each needs its own memory, samplers and evaluations


def group_of(settings: RunSettings) -> str:
    """A text that is the same for all runs that can be trained together."""
    values = flat(to_mapping(settings, whole=True))
    return json.dumps({name: value for name, value in values.items() if name not in FREE}, sort_keys=True)


def suggested_count(settings: RunSettings) -> int:
    """How many such runs fill a GPU: one if their products fill half of it, and one on the CPU."""
    if not settings.training.on_gpu:
        return 1
    from twoclocks.runs.operations import step_operations  # which needs torch

    return max(1, min(SUGGESTED, int(FILLS / step_operations(settings))))


def groups_in_words(cells: Iterable[Cell], count_together: Callable[[RunSettings], int]) -> str:
    """Which cells a process may train together, such as ``Trained together: up to 4 of 12 cells per process``."""
    alike: dict[str, list[RunSettings]] = defaultdict(list)
    for cell in cells:
        alike[group_of(cell.settings)].append(cell.settings)
    parts = []
    for group in alike.values():
        most = min(len(group), count_together(group[0]))
        if most > 1:
            parts.append(f"up to {most} of {len(group)} cells per process")
    if not parts:
        return ""
    alone = sum(len(group) for group in alike.values() if min(len(group), count_together(group[0])) < 2)
    rest = f"; {alone} cells by themselves" if alone else ""
    return f"Trained together: {', '.join(dict.fromkeys(parts))}{rest}."
