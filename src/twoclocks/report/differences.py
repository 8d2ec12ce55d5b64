"""The settings in which runs differ: they name the runs of a sweep better than its folders, which are hashes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twoclocks.core.config import flat
from twoclocks.runs.load import Run

MOST_SETTINGS = 10  # that are shown
_HASH = re.compile("[0-9a-f]{16}")  # the folder of a cell
_NAMES = ("name", "description")  # of runs, which say nothing about them


def plain_settings(run: Run) -> dict[str, Any]:
    """All settings by dotted name; those of evaluation and clocks later, seeds last."""

    def place(key: str) -> int:
        return 2 if key.endswith(".seed") else int(key.startswith(("evaluation.", "clocks.")))

    return dict(sorted(flat(run.stored_settings).items(), key=lambda item: place(item[0])))


def differing(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings in which the runs differ, by dotted name."""
    keys = dict.fromkeys(key for table in tables for key in table if key not in _NAMES)
    found = [key for key in keys if len({str(table.get(key)) for table in tables}) > 1]
    seeds = [key for key in found if key.endswith(".seed")]
    others = [key for key in found if key not in seeds]
    return others[: max(0, MOST_SETTINGS - len(seeds))] + seeds


def run_names(runs: Sequence[Run], differ: Sequence[str]) -> list[str]:
    """What runs are called on their page: cells of a sweep by the settings in which they differ, others by name."""
    if not differ or not all(_HASH.fullmatch(run.path.name) for run in runs):
        return [run.label for run in runs]
    tables = [plain_settings(run) for run in runs]
    names = [", ".join(f"{key} {table[key]}" for key in differ if key in table) for table in tables]
    # Runs of the same settings are told apart by their folders.
    return [name if names.count(name) == 1 else run.label for name, run in zip(names, runs, strict=True)]


def in_order(values: Iterable[Any]) -> list[tuple[int, float, str]]:
    """A key that sorts numbers as numbers, before all else."""
    return [(0, value, "") if isinstance(value, int | float) else (1, 0.0, str(value)) for value in values]
