"""Groups of runs: those that differ in nothing but what may differ within a law."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar

from twoclocks.core.config import flat, machine_settings, to_mapping
from twoclocks.runs.settings import RunSettings

# What may differ between the runs of one law: their size, seeds and length, how fast they were computed, and whether
# averaged weights were evaluated too.
VARIES_IN_A_LAW = machine_settings(RunSettings) | {
    *("data.n", "data.seed", "data.part", "training.seed", "training.steps", "training.average", "name", "description"),
}
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items by key, in the order of their first occurrence."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def group_labels(settings: Sequence[Any], besides: Collection[str] = ()) -> list[str]:
    """The settings in which runs differ besides size, seeds and length, in words; "all runs" without any."""
    tables = [fixed_settings(one) for one in settings]
    keys = sorted({key for table in tables for key in table} - set(besides))
    varying = [key for key in keys if len({str(table.get(key)) for table in tables}) > 1]
    return [", ".join(f"{key} {table[key]}" for key in varying if key in table) or "all runs" for table in tables]


def fixed_settings(settings: Any) -> dict[str, Any]:
    """The settings that may not differ within a law, by dotted name."""
    found: dict[str, Any] = {}
    for item in fields(settings):
        section: Any = getattr(settings, item.name)
        if not is_dataclass(section):
            found |= {} if free(item.name) else {item.name: to_mapping(section)}
        elif not free(f"{item.name}."):
            try:
                found |= section_table(type(settings), item.name, section)  # type: ignore[arg-type]  # as mypy sees it
            except TypeError:  # a component of the user with a value that cannot be hashed
                found |= section_table.__wrapped__(type(settings), item.name, section)
    return found


@lru_cache(maxsize=4096)  # the cells of a sweep share most of their sections
def section_table(owner: type, name: str, section: Any) -> dict[str, Any]:
    """The settings of one section that may not differ within a law, by dotted name."""
    registry = owner.__dataclass_fields__[name].metadata.get("registry")  # type: ignore[attr-defined]
    plain = to_mapping(section, whole=True)
    named = plain if registry is None else {"name": registry.name_of(section), **plain}
    return {key: value for key, value in flat({name: named}).items() if not free(key)}


def free(key: str) -> bool:
    """Whether a setting may differ between the runs of one law."""
    return key in VARIES_IN_A_LAW or key.startswith(("evaluation.", "clocks."))
