"""Families of runs, which may be compared: they differ in seeds, length, machine and in what is varied on purpose."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any

from twoclocks.core.config import machine_settings
from twoclocks.runs.settings import RunSettings

# An average of the weights changes nothing in training.
FREE = machine_settings(RunSettings) | {
    *("name", "description", "data.seed", "training.seed", "training.steps", "training.average"),
}
FREE_SECTIONS = ("evaluation.", "clocks.")
CRITERIA = frozenset({"evaluation.copy_ratio", "evaluation.copy_run"})  # what counts as a copy: not free
ValuesByName = tuple[tuple[str, Hashable], ...]


def fixed_settings(settings: Mapping[str, Any], varied: Collection[str]) -> ValuesByName:
    """The settings that all runs of a family share; in ``varied``, a name that ends in a dot means a whole section.

    >>> fixed_settings({"rule.name": "parity", "rule.group": 3, "data.n": 64, "data.seed": 1}, ["rule."])
    (('data.n', 64),)
    """
    free = {name for name in settings if name in FREE or (name.startswith(FREE_SECTIONS) and name not in CRITERIA)}
    fixed = settings.keys() - free - named(settings, varied)
    return tuple((name, hashable(settings[name])) for name in sorted(fixed))


def varied_settings(settings: Mapping[str, Any], varied: Collection[str]) -> ValuesByName:
    """The settings in which the runs of a family differ on purpose."""
    return tuple((name, hashable(settings[name])) for name in sorted(named(settings, varied)))


def named(settings: Mapping[str, Any], varied: Collection[str]) -> set[str]:
    sections = tuple(name for name in varied if name.endswith("."))
    return {name for name in settings if name in varied or name.startswith(sections)}


def hashable(value: Any) -> Any:
    """A value of a setting that can be in a set: lists become tuples."""
    return tuple(map(hashable, value)) if isinstance(value, list) else value
