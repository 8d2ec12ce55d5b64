"""Plans of sweeps: a grid over any settings, crossed with seeds, expanded to cells with unique keys.

name: law                                   # default: the file's own name
base: p1-gpt                                # a preset, or a YAML file in the same folder
set: {training.steps: 4000}                 # what all cells share
grid:
  data.n: [256, 512, 1024]                  # a list
  rule.group: {from: 2, to: 4}              # integers, both ends included
  training.learning_rate: {from: 1e-5, to: 1e-3, count: 5, spacing: log}
seeds: {training: 3, data: [0, 1]}          # initial weights × data, crossed with everything
imports: [my_rule.py]                       # Python files beside this one that register rules, models, … of your own
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoclocks.core.arguments import as_overrides
from twoclocks.core.config import Settings, build, flat, merge, nested, setting
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.plugins import import_files
from twoclocks.core.yaml_files import read_yaml
from twoclocks.runs.presets import DEFAULT_PRESET, read_preset
from twoclocks.runs.settings import RunSettings, build_settings, check_name

MOST = 100_000  # cells


@dataclass(frozen=True, kw_only=True)
class SweepSettings(Settings):
    """The settings in a sweep file."""

    name: str = setting("sweep", "a label, and the name of its folder; default: the name of the file")
    description: str = setting("", "one sentence")
    base: str = setting(DEFAULT_PRESET, "a preset, or a YAML file in the same folder")
    set: dict[str, Any] | None = setting(None, "settings that all cells share, by dotted name")
    grid: dict[str, Any] | None = setting(None, "lists or ranges of settings, by dotted name; all are crossed")
    seeds: dict[str, Any] | None = setting(None, "seeds to cross: training, data, evaluation; a number or a list")

    def check(self) -> None:
        check_name(self.name)


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    key: str  # the name of its folder
    point: dict[str, Any]  # its values on the axes of the grid, by dotted name
    settings: RunSettings


@dataclass(frozen=True)
class Plan:
    """A sweep's name and all its cells."""

    name: str
    description: str
    cells: tuple[Cell, ...]

    @property
    def axes(self) -> list[str]:
        """Names of the settings in which cells differ."""
        return list(self.cells[0].point)


def read_plan(path: Path | str, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Plan:
    """Read a sweep file; overrides such as ``--data.n 512`` change settings that all cells share."""
    path = Path(path)
    if not is_file(path):
        raise UserError(
            f"{path}: does not exist or is not a file; give the YAML file of a sweep, with base, grid and seeds"
        )
    mapping = read_yaml(path)
    import_files(mapping.pop("imports", None), path.parent)
    chosen = build(SweepSettings, {"name": path.stem, **mapping})
    return make_plan(chosen, path.parent, as_overrides(overrides))


def make_plan(chosen: SweepSettings, folder: Path = Path(), change: Mapping[str, Any] | None = None) -> Plan:
    """Expand the settings of a sweep to its cells; ``folder`` is where ``base`` is searched for as a file."""
    axes = all_axes(chosen.grid or {}, chosen.seeds or {})
    check_once(axes, chosen.set or {}, change or {})
    # One thread per cell: several cells share the machine, and rounding must not depend on how many.
    base = merge(read_preset(chosen.base, folder), {"name": chosen.name, "description": chosen.description})
    shared = merge(nested({"training.threads": 1}), merge(nested(chosen.set or {}), change or {}))
    cells: dict[str, Cell] = {}
    for combination in itertools.product(*axes.values()):
        point = dict(zip(axes, combination, strict=True))
        try:
            settings = build_settings(base, merge(shared, nested(point)))
        except UserError as error:
            where = ", ".join(f"{key} = {value}" for key, value in point.items())
            raise UserError(f"{error} (in the cell {where})" if where else str(error)) from None
        cell = Cell(settings.key(), point, settings)
        if cell.key in cells:
            other = cells[cell.key].point
            raise UserError(f"grid: {point} and {other} are the same run; remove one of them")
        cells[cell.key] = cell
    return Plan(chosen.name, chosen.description, tuple(cells.values()))


def is_file(path: Path) -> bool:
    """Whether a path names a file; a name that no file can have does not."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def all_axes(grid: Mapping[str, Any], seeds: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The values of every axis, by dotted name; they are counted one by one, so too many are never listed."""
    axes: dict[str, list[Any]] = {}
    count = 1

    def add(key: str, values: list[Any]) -> None:
        nonlocal count
        axes[key], count = values, count * len(values)
        if count > MOST:
            raise SettingError("grid", f"{count:,} cells or more", f"use at most {MOST:,}")

    for key, value in grid.items():
        add(str(key), axis_values(str(key), value))
    for section, value in seeds.items():
        if f"{section}.seed" in axes:
            raise SettingError(f"seeds.{section}", value, f"{section}.seed is an axis of the grid already; remove one")
        add(f"{section}.seed", seed_values(section, value))
    return axes


def check_once(axes: Mapping[str, Any], shared: Mapping[str, Any], change: Mapping[str, Any]) -> None:
    """Raise SettingError if a setting is given twice, for example shared and as an axis."""
    for key, value in {**flat(nested(shared)), **flat(change)}.items():
        if key in axes:
            raise SettingError(key, value, "it is an axis of the grid, where cells differ; remove one of the two")
    for other, values in axes.items():
        for key in itertools.accumulate(other.split(".")[:-1], lambda above, name: f"{above}.{name}"):
            if key in axes:
                raise SettingError(f"grid.{other}", values, f"it is part of the axis {key}; remove one of the two")
    for place in (axes, shared, change):
        for label in {"name", "description"} & set(place):
            raise SettingError(
                label, place[label], "it belongs to the sweep; write it at the top level, next to base and grid"
            )


def axis_values(key: str, given: Any) -> list[Any]:
    """The values of one axis, from a list or a range."""
    if isinstance(given, list) and given:
        return given
    if isinstance(given, Mapping) and {"from", "to"} <= set(given):
        return range_values(key, given)
    fix = "use a list such as [1, 2], or a range such as {from: 1, to: 9, step: 2} or {from: 1, to: 9, count: 3}"
    raise SettingError(f"grid.{key}", given, fix)


def range_values(key: str, given: Mapping[str, Any]) -> list[Any]:
    """The values of a range, both ends included; if both ends are integers, so are all values."""
    unknown = set(given) - {"from", "to", "step", "count", "spacing"}
    first, last = given["from"], given["to"]
    are_numbers = all(is_number(x) for x in (first, last, given.get("step", 1)))
    if (
        unknown
        or not are_numbers
        or not first <= last
        or ("step" in given and ("count" in given or given["step"] <= 0))
    ):
        raise SettingError(
            f"grid.{key}", dict(given), "use from ≤ to, and step above 0 or count, with spacing for count"
        )
    try:
        found = counted_values(key, given) if "count" in given else stepped_values(key, given)
    except OverflowError:
        found = [math.inf]
    if not all(is_number(x) for x in found):
        raise SettingError(f"grid.{key}", dict(given), "its values are too large; use smaller numbers")
    return found


def stepped_values(key: str, given: Mapping[str, Any]) -> list[Any]:
    """The values of a range that goes on by ``step``, by default 1."""
    first, last, step = given["from"], given["to"], given.get("step", 1)
    if "step" not in given and not (isinstance(first, int) and isinstance(last, int)):
        raise SettingError(f"grid.{key}", dict(given), "add step, or count and spacing")
    exact = all(isinstance(x, int) for x in (first, last, step))
    steps = (last - first) // step if exact else (last - first) / step + 1e-9
    if not steps < MOST:
        raise SettingError(f"grid.{key}", dict(given), f"these are too many values; use at most {MOST:,}")
    found = [first + step * i for i in range(int(steps) + 1)]
    return [float(f"{x:.12g}") if isinstance(x, float) else x for x in found]


def counted_values(key: str, given: Mapping[str, Any]) -> list[Any]:
    """The values of a range with a ``count``, evenly spaced or evenly spaced in the logarithm."""
    first, last, count, spacing = given["from"], given["to"], given["count"], given.get("spacing", "linear")
    countable = isinstance(count, int) and 2 <= count <= MOST
    if not countable or spacing not in ("linear", "log") or (spacing == "log" and first <= 0):
        raise SettingError(
            f"grid.{key}", dict(given), "use count of at least 2, and spacing linear, or log with from > 0"
        )
    integers = isinstance(first, int) and isinstance(last, int)
    places = [i / (count - 1) for i in range(count)]
    found = [first + (last - first) * x if spacing == "linear" else first * (last / first) ** x for x in places]
    return list(dict.fromkeys(round(x) if integers else float(f"{x:.12g}") for x in found))


def is_number(value: Any) -> bool:
    """Whether a value is a finite integer or float."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and -sys.float_info.max <= value <= sys.float_info.max
    )


def seed_values(section: str, given: Any) -> list[int]:
    """The seeds of a section, from their number or a list."""
    if section not in ("training", "data", "evaluation"):
        raise SettingError(f"seeds.{section}", given, "use training, data or evaluation")
    counted = isinstance(given, int) and not isinstance(given, bool) and given <= MOST
    found = list(range(given)) if counted else given
    if not isinstance(found, list) or not found or not all(isinstance(x, int) for x in found):
        raise SettingError(f"seeds.{section}", given, "use a number of seeds, such as 3, or a list, such as [0, 1, 2]")
    return found
