"""Tables straight from the registries, for `twoclocks list` and for the documentation.

Every table imports only the folder that it is about. Half of them need no torch, whose import takes longer than
everything else; the command line keeps the others in a cache (``twoclocks.core.cached``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

from twoclocks.core.cached import cached
from twoclocks.core.config import describe, to_mapping
from twoclocks.core.errors import UnknownNameError
from twoclocks.core.registry import Registry

Rows = list[dict[str, str]]
NEED_TORCH = ("interventions", "metrics", "models", "objectives", "settings", "views")


def cached_rows(kind: str) -> Rows:
    """The rows of ``list_rows``; those that need torch come from the user's cache, if they are there."""
    if kind not in NEED_TORCH:
        return list_rows(kind)
    rows: Rows = cached(f"list-{kind}", lambda: list_rows(kind))
    return rows


def list_rows(kind: str) -> Rows:
    """Rows of one table; every cell is text."""
    tables: dict[str, Callable[[], Rows]] = {
        "presets": preset_rows,
        "rules": rule_rows,
        "encodings": encoding_rows,
        "models": model_rows,
        "objectives": objective_rows,
        "metrics": metric_rows,
        "views": view_rows,
        "settings": setting_rows,
        "templates": template_rows,
    }
    return tables[kind]()


def preset_rows() -> Rows:
    from twoclocks.runs.presets import preset_names, read_preset

    return [{"preset": name, "what it is": read_preset(name).get("description", "")} for name in preset_names()]


def encoding_rows() -> Rows:
    from twoclocks.data.encodings import ENCODINGS

    return registry_rows(ENCODINGS)


def objective_rows() -> Rows:
    from twoclocks.objectives import OBJECTIVES

    return registry_rows(OBJECTIVES)


def view_rows() -> Rows:
    from twoclocks.dissection import VIEWS

    return registry_rows(VIEWS)


def template_rows() -> Rows:
    """Files to copy and change, each with its first line and its path."""
    return [
        {"template": name, "what it is": path.read_text(encoding="utf-8").split("\n")[0].strip('"'), "path": str(path)}
        for name, path in template_paths().items()
    ]


def template_paths() -> dict[str, Path]:
    folder = Path(str(files("twoclocks") / "templates"))
    return {path.stem: path for path in sorted(folder.glob("*.py"))}


def read_template(name: str) -> str:
    """The text of a template, to be saved as a file of the user's own."""
    paths = template_paths()
    if name not in paths:
        raise UnknownNameError("template", name, paths)
    return paths[name].read_text(encoding="utf-8")


def registry_rows(registry: Registry[Any]) -> Rows:
    """One row per member: its name, the first line of its docstring, its settings."""
    return [{"name": name, "what it is": first_line(cls), "settings": arguments(cls)} for name, cls in registry.items()]


def first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().split("\n")[0].replace("``", "")


def arguments(cls: type) -> str:
    return ", ".join(item.name for item in fields(cls))


def rule_rows() -> Rows:
    """One row per rule, at its first published size."""
    from twoclocks.rules import RULES

    rows = []
    for name, cls in RULES.items():
        row = {"rule": name, "arguments": arguments(cls), "example": "", "valid set": "", "chance": ""}
        for example in cls.examples[:1]:
            rule = RULES.create(name, **example)
            row["example"] = ", ".join(str(value) for value in to_mapping(rule).values())
            row["valid set"], row["chance"] = large(rule.count()), f"{rule.chance():.2e}"
            if rule.support() < rule.count():
                row["valid set"] = f"{large(rule.support())} of {large(rule.count())}"
        rows.append({**row, "what it is": first_line(cls)})
    return rows


def large(number: int) -> str:
    """A count with all its digits, or with three digits and a power of ten where it is too long."""
    return f"{number:,}" if number < 10**15 else f"{Decimal(number):.2e}"


def model_rows() -> Rows:
    """One row per model and published size."""
    import torch

    from twoclocks.models import MODELS, parameter_count

    rows = []
    for name, cls in MODELS.items():
        shape, symbols = cls.example
        for size, settings in cls.published().items():
            with torch.device("meta"):  # shapes are enough to count
                millions = f"{parameter_count(settings.build(shape, symbols)) / 1e6:.2f} M"
            example = f"{'×'.join(map(str, shape))} over {symbols}"
            rows.append(
                {
                    "model": name,
                    "size": size,
                    "network": settings.title,
                    "what it is asked": cls.task,
                    "parameters": millions,
                    "for samples of": example,
                }
            )
    return rows


def metric_rows() -> Rows:
    """One row per column of every registered metric, with its chance levels for 4,096 training samples (512 images).

    The levels are those of the first rule that has the column; parity, the baseline of P1, comes first.
    """
    from twoclocks.data import holdout_set, omitted_contents, training_set
    from twoclocks.data.sets import natural_held_out
    from twoclocks.evaluation import EvaluationSettings, Evaluator
    from twoclocks.rules import RULES

    rows: dict[str, dict[str, str]] = {}
    for name in ["parity", *(name for name in RULES.names() if name != "parity")]:
        examples = RULES.get(name).examples
        if not examples:
            continue
        rule = RULES.create(name, **examples[0])
        train = training_set(rule, 512 if rule.is_natural else 4096)
        held_out = natural_held_out(rule, train)
        omitted = omitted_contents(rule, 1, seed=0) if name == "parity" else None
        evaluator = Evaluator(rule, train, EvaluationSettings(), holdout_set(rule, train), omitted, held_out)
        for column in evaluator.columns():
            row = {
                "metric": column.name,
                "what it is": column.about,
                "direction": column.direction,
                "chance (rule)": "" if column.chance_rule is None else f"{column.chance_rule:.3g}",
                "chance (cube)": "" if column.chance_cube is None else f"{column.chance_cube:.3g}",
                "for": name,
            }
            rows.setdefault(column.name, row)
    return list(rows.values())


def setting_rows() -> Rows:
    """One row per setting: the fixed sections first, then those of every registered component."""
    from twoclocks.data.encodings import ENCODINGS
    from twoclocks.evaluation.quality import FEATURES
    from twoclocks.models.base import MODELS
    from twoclocks.objectives.base import OBJECTIVES
    from twoclocks.rules import RULES
    from twoclocks.runs.settings import RunSettings

    keys = ("setting", "type", "default", "what it is")
    sections: dict[str, Registry[Any]] = {
        "rule": RULES,
        "encoding": ENCODINGS,
        "model": MODELS,
        "objective": OBJECTIVES,
        "evaluation.features": FEATURES,
    }
    found = [row for row in describe(RunSettings) if row[0] not in sections]
    for section, registry in sections.items():
        found.append((f"{section}.name", "str", "", f"one of {', '.join(registry.names())}"))
        for name, cls in registry.items():
            found += [(f"{key} ({name})", *rest) for key, *rest in describe(cls, section)]  # type: ignore[misc]
    return [dict(zip(keys, row, strict=True)) for row in found]
