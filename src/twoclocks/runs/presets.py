"""Presets and YAML files of settings, as mappings; imports no torch."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from twoclocks.core.config import merge
from twoclocks.core.errors import SettingError, UnknownNameError
from twoclocks.core.plugins import import_files
from twoclocks.core.yaml_files import read_yaml

DEFAULT_PRESET = "demo"
MOST_BASES = 16  # files that name each other as base; more are a circle, whose paths may all look different


def preset_names() -> list[str]:
    folder = files("twoclocks") / "presets"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def read_preset(name: str, beside: Path = Path(), below: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The mapping of a preset or of a YAML file.

    ``base`` in it names the preset, or the file beside it, that it changes. ``imports`` lists Python files, relative to
    the YAML file, that are imported now (see ``twoclocks.core.plugins``): what they register can be used in the file.
    """
    if name in preset_names():
        path = Path(str(files("twoclocks") / "presets" / f"{name}.yaml"))
    elif name.endswith((".yaml", ".yml")):
        path = beside / name
    else:
        raise UnknownNameError("preset", name, preset_names())
    if path in below or len(below) >= MOST_BASES:
        raise SettingError("base", name, "the files name each other in a circle; remove one base")
    mapping = read_yaml(path)
    import_files(mapping.pop("imports", None), path.parent)
    base = mapping.pop("base", None)
    if base is None:
        return mapping
    if not isinstance(base, str):
        raise SettingError("base", base, f"use a YAML file or one of {', '.join(preset_names())}")
    return merge(read_preset(base, path.parent, (*below, path)), mapping)
