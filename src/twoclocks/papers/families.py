"""Runs that belong together: equal in everything but what a figure varies, the seeds and the length."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from twoclocks.core.config import flat, machine_settings, to_mapping
from twoclocks.papers.records import Record, Records
from twoclocks.papers.scales import PAPER
from twoclocks.training.loop import TrainingSettings

ALWAYS_FREE = ("name", "description", "training.steps", "training.seed", "training.average", "data.seed")
FREE_SECTIONS = ("evaluation.", "clocks.")


def family(records: Records, varied: Collection[str]) -> Records:
    """The best set of runs that differ in the ``varied`` settings, the seeds and the length alone.

    A name that ends in a dot means all settings of a section. So runs with averaged weights, another batch or other
    data never mix with the plain ones. Of several such sets, one that varies at all is taken, then the one that is
    nearest to the preset (so P1's N before others), then the one with the most different values, the largest N, the
    most runs.
    """
    sets: dict[Any, list[Record]] = {}
    for one in records:
        sets.setdefault(fixed_settings(one, varied), []).append(one)
    best: list[Record] = max(sets.values(), key=lambda ones: rank(ones, varied), default=[])
    return Records(best)


def fixed_settings(one: Record, varied: Collection[str]) -> tuple[tuple[str, str], ...]:
    """The settings that all runs of a family share."""
    return tuple((name, str(value)) for name, value in one.settings.items() if not is_free(name, varied))


def rank(ones: list[Record], varied: Collection[str]) -> tuple[bool, int, int, int, int]:
    values = {tuple((key, str(v)) for key, v in one.settings.items() if is_named(key, varied)) for one in ones}
    preset = preset_settings(ones[0].preset)
    changed = sum(preset.get(name) != value for name, value in fixed_settings(ones[0], varied))
    return len(values) > 1, -changed, len(values), ones[0].n, len(ones)


@cache
def preset_settings(name: str) -> dict[str, str]:
    """The settings of a preset as text, by dotted name."""
    return {key: str(value) for key, value in flat(to_mapping(PAPER.cell(name, {}).settings)).items()}


def is_free(name: str, varied: Collection[str]) -> bool:
    """Whether runs of one family may differ in a setting."""
    machine = name.removeprefix("training.") in machine_settings(TrainingSettings) and name.startswith("training.")
    return machine or name in ALWAYS_FREE or name.startswith(FREE_SECTIONS) or is_named(name, varied)


def is_named(name: str, varied: Collection[str]) -> bool:
    return name in varied or name.startswith(tuple(part for part in varied if part.endswith(".")))
