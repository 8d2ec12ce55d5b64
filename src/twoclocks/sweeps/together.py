"""Which cells of a sweep can be trained together in one process, and how many are worth it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twoclocks.core.config import flat, to_mapping

if TYPE_CHECKING:
    from twoclocks.runs.settings import RunSettings
    from twoclocks.runs.together import Form
    from twoclocks.sweeps.grid import Cell

# Settings in which runs may differ that are one computation, or share the threads of a CPU: what an update computes
# does not depend on them.
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


# Settings in which runs must agree that make their own updates side by side on a GPU: they are those of the process, or
# of the size of an update. A run with much larger updates than the others would be alone for most of the time.
SAME = ("model.", "objective.", "training.device", "training.precision", "training.kernels", "training.batch")


@dataclass(frozen=True)
class Packing:
    """Which cells of a sweep one process trains together, and how.

    ``together``: most cells of a process; 0: as many as fill a GPU. ``batched``: on a GPU, as one computation.
    """

    together: int = 1
    batched: bool = False

    def most(self, settings: RunSettings) -> int:
        """How many cells like this one are worth it."""
        return self.together or suggested_count(settings)

    def group(self, settings: RunSettings) -> str:
        """A text that is the same for all cells that can be trained together."""
        values = flat(to_mapping(settings, whole=True))
        side_by_side = settings.training.on_gpu and not self.batched
        shared = [name for name in values if (name.startswith(SAME) if side_by_side else name not in FREE)]
        return json.dumps({name: values[name] for name in shared}, sort_keys=True)

    def form(self, settings: RunSettings) -> Form | None:
        """How such cells are trained; None: in the usual way of their device."""
        return "batched" if self.batched and settings.training.on_gpu else None


def suggested_count(settings: RunSettings) -> int:
    """How many such runs fill a GPU: one if their products fill half of it, and one on the CPU."""
    if not settings.training.on_gpu:
        return 1
    from twoclocks.runs.operations import step_operations  # which needs torch

    return max(1, min(SUGGESTED, int(FILLS / step_operations(settings))))


def groups_in_words(cells: Iterable[Cell], packing: Packing) -> str:
    """Which cells a process may train together, such as ``Trained together: up to 4 of 12 cells per process``."""
    alike: dict[str, list[RunSettings]] = defaultdict(list)
    for cell in cells:
        alike[packing.group(cell.settings)].append(cell.settings)
    sizes = [(len(group), min(len(group), packing.most(group[0]))) for group in alike.values()]
    parts = [f"up to {most} of {count} cells per process" for count, most in sizes if most > 1]
    if not parts:
        return ""
    alone = sum(count for count, most in sizes if most < 2)
    rest = f"; {alone} cells by themselves" if alone else ""
    return f"Trained together: {', '.join(dict.fromkeys(parts))}{rest}."
