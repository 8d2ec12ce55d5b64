"""Strict settings: frozen dataclasses that check themselves, built from plain mappings, overridden by dotted keys.

A component is its own settings (a rule *is* its length and group size), so there is one place for a value, its help,
its range and its check. Errors name the field, the value and the fix.
"""

from __future__ import annotations

import sys
import types
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from twoclocks.core.errors import SettingError, UnknownNameError, UserError
from twoclocks.core.registry import Registry
from twoclocks.core.text import MOST_BITS, shortened, show

S = TypeVar("S")
MOST_SECTIONS = 16  # parts of a dotted name


def setting(
    default: Any = MISSING,
    help: str = "",
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    registry: Registry[Any] | None = None,
    machine: bool = False,
    added: bool = False,
) -> Any:
    """A dataclass field with its help and its allowed range beside it.

    ``machine``: the setting chooses how fast the result is computed, not which result. ``added``: earlier versions did
    not have it and computed what its default gives, so ``to_mapping`` leaves out the default: their runs keep their
    digests, and the cells of their sweeps their folders.
    """
    limits = {"at_least": at_least, "above": above, "at_most": at_most, "below": below}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    metadata = {"help": help, "registry": registry, "limits": given, "machine": machine, "added": added}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Settings(ABC):  # noqa: B024 (its subclasses have abstract members)
    """Base of every component with settings: types and ranges are checked on construction, wherever it happens."""

    def __post_init__(self) -> None:
        hints = _type_hints(type(self))
        for item in fields(self):
            value = _coerce(getattr(self, item.name), hints[item.name], item.name)
            _check_limits(value, item)
            object.__setattr__(self, item.name, value)
        self.check()

    def check(self) -> None:  # noqa: B027
        """Override for conditions that involve several fields; raise SettingError."""


@cache
def _type_hints(cls: type) -> dict[str, Any]:
    """Types of a class's fields, resolved once per class, because a sweep builds thousands of settings."""
    return get_type_hints(cls)


def _check_limits(value: object, item: Field[Any]) -> None:
    limits: Mapping[str, float] = item.metadata.get("limits", {})
    passes = {
        "at_least": lambda v, limit: v >= limit,
        "above": lambda v, limit: v > limit,
        "at_most": lambda v, limit: v <= limit,
        "below": lambda v, limit: v < limit,
    }
    for number in value if isinstance(value, tuple) else (value,):
        if number is not None and not all(passes[name](number, limit) for name, limit in limits.items()):
            allowed = " and ".join(f"{name.replace('_', ' ')} {limit:.12g}" for name, limit in limits.items())
            raise SettingError(item.name, number, f"use a number that is {allowed}")


def _coerce(value: Any, hint: Any, name: str) -> Any:
    """``value`` converted to the type ``hint``, without guessing: a string is never a number, 0.5 never an integer."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or (isinstance(hint, type) and is_dataclass(hint)):
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        wanted = [a for a in arguments if a is not type(None)]
        return _coerce(value, wanted[0], name)
    if origin is Literal:
        if value not in arguments:
            raise SettingError(name, value, f"use one of {', '.join(map(str, arguments))}")
        return value
    if origin is dict:
        if not isinstance(value, Mapping):
            raise SettingError(name, value, f"use a mapping, for example {{KEY: {show(value)}}}")
        return dict(value)
    if origin is tuple:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise SettingError(name, value, f"use a list, for example [{show(value)}]")
        return tuple(_coerce(entry, arguments[0], name) for entry in value)
    return _coerce_plain(value, hint, name)


def _coerce_plain(value: Any, hint: Any, name: str) -> Any:
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) > sys.float_info.max or value != value:
            raise SettingError(name, value, "use a finite float")
        return float(value)
    whole = value.is_integer() if isinstance(value, float) else hasattr(value, "__index__")
    if hint is int and whole and not isinstance(value, bool):
        if int(value).bit_length() > MOST_BITS:
            raise SettingError(name, value, f"use an integer of at most {MOST_BITS} bits")
        return int(value)
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    names = {int: "an integer", float: "a float", bool: "true or false", str: "a string"}
    numeric = isinstance(value, str) and value.strip("+-").replace(".", "", 1).isdigit()
    note = " (this is a string; write it without quotes)" if numeric and hint in (int, float) else ""
    raise SettingError(name, value, f"use {names.get(hint, str(hint))}{note}")


def build(cls: type[S], mapping: Mapping[str, Any], path: str = "") -> S:
    """Instance of a settings class from a plain mapping; unknown keys are refused with the nearest known one."""
    prefix = f"{path}." if path else ""
    known = {item.name: item for item in fields(cls)}  # type: ignore[arg-type]
    for key in mapping:
        if key not in known:
            raise UnknownNameError(f"{prefix}{key}", str(key), known)
    required = [name for name, item in known.items() if item.default is MISSING and item.default_factory is MISSING]
    missing = [f"{prefix}{name}" for name in required if name not in mapping]
    if missing:
        problem = "it is missing and has no default; give it a value"
        if len(missing) > 1:
            problem = "they are missing and have no defaults; give them values"
        raise UserError(f"{', '.join(missing)}: {problem}")
    hints = _type_hints(cls)  # type: ignore[arg-type]  # every class can be hashed
    arguments = {
        name: _build_field(item, hints[name], mapping[name], f"{prefix}{name}")
        for name, item in known.items()
        if name in mapping
    }
    try:
        return cls(**arguments)
    except SettingError as error:
        raise (error.inside(path) if path else error) from None


def _build_field(item: Field[Any], hint: Any, value: Any, path: str) -> Any:
    registry: Registry[Any] | None = item.metadata.get("registry")
    if registry is not None and not isinstance(value, registry.base):
        section = {"name": value} if isinstance(value, str) else as_mapping(value, path)
        if not isinstance(section.get("name", ""), str):
            raise SettingError(f"{path}.name", section["name"], f"use one of {', '.join(registry.names())}")
        if not section.get("name"):
            takes = [name for name, cls in registry.items() if set(section) <= {item.name for item in fields(cls)}]
            names = ", ".join(takes or registry.names())
            raise UserError(f"{path}.name: it is missing; name the {path} too, with one of {names}")
        rest = {key: entry for key, entry in section.items() if key != "name"}
        return build(registry.get(section["name"]), rest, path)
    if registry is None and isinstance(hint, type) and is_dataclass(hint) and not isinstance(value, hint):
        return build(hint, as_mapping(value, path), path)
    return value


def as_mapping(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingError(path, value, f"it is a section; set its fields one by one, as in {path}.FIELD")
    return value


def to_mapping(value: Any, whole: bool = False) -> Any:
    """The plain form from which ``build`` makes the settings again: dicts, lists, numbers, strings and None.

    It is what is stored. ``whole`` is for people: settings that were added have their default in it too.
    """
    if is_dataclass(value) and not isinstance(value, type):
        result: dict[str, Any] = {}
        for item in fields(value):
            entry = getattr(value, item.name)
            if item.metadata.get("added") and entry == item.default and not whole:
                continue
            plain = to_mapping(entry, whole)
            if item.metadata.get("registry") is not None and entry is not None:
                plain = {"name": item.metadata["registry"].name_of(entry), **plain}
            result[item.name] = plain
        return result
    return list(value) if isinstance(value, tuple) else value


def machine_settings(cls: type, path: str = "") -> frozenset[str]:
    """Dotted names of the settings that choose how fast a result is computed, not which one."""
    found: set[str] = set()
    for item in fields(cls):
        key, hint = f"{path}{item.name}", _type_hints(cls)[item.name]
        if item.metadata.get("machine"):
            found.add(key)
        elif isinstance(hint, type) and is_dataclass(hint) and item.metadata.get("registry") is None:
            found |= machine_settings(hint, f"{key}.")
    return frozenset(found)


def describe(cls: type, path: str = "") -> list[tuple[str, str, str, str]]:
    """Rows (key, type, default, help) of a settings class, for help texts and documentation."""
    rows = []
    for item in fields(cls):
        key = f"{path}.{item.name}" if path else item.name
        hint = _type_hints(cls)[item.name]
        if isinstance(hint, type) and is_dataclass(hint) and item.metadata.get("registry") is None:
            rows += describe(hint, key)
            continue
        default = "required" if item.default is MISSING and item.default_factory is MISSING else str(item.default)
        rows.append((key, _type_name(hint), default, item.metadata.get("help", "")))
    return rows


def _type_name(hint: Any) -> str:
    """A type as tables and help texts show it, such as ``int or none``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (Union, types.UnionType):
        return " or ".join("none" if a is type(None) else _type_name(a) for a in arguments)
    if origin is tuple:
        return f"list of {_type_name(arguments[0])}"
    return getattr(hint, "__name__", str(hint))


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` changed by ``change``; a section with a new ``name`` replaces the old one as a whole."""
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        if isinstance(old, Mapping) and "name" in old and isinstance(value, str):
            value = {"name": value}  # the short form of a section
        elif isinstance(old, str) and isinstance(value, Mapping):
            old = {"name": old}
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            renamed = "name" in value and value["name"] != old.get("name")
            result[key] = dict(value) if renamed else merge(old, value)
        else:
            result[key] = value
    return result


def nested(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """``{"data.n": 512}`` as ``{"data": {"n": 512}}``; nested keys stay as they are."""
    result: dict[str, Any] = {}
    for key, value in mapping.items():
        sections = str(key).split(".")
        if len(sections) > MOST_SECTIONS:
            raise UserError(f"{shortened(str(key))}: has {len(sections) - 1:,} dots; settings look like data.n")
        for section in reversed(sections):
            value = {section: value}
        result = merge(result, value)
    return result


def flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"data": {"n": 512}}`` as ``{"data.n": 512}``: the inverse of ``nested``."""
    result: dict[str, Any] = {}
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[f"{prefix}{key}"] = value
    return result
