"""Tables of all registered components, for `twoclocks list` and for the documentation."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from typing import Any

import torch

from twoclocks.core.config import describe, to_mapping
from twoclocks.core.registry import Registry
from twoclocks.data.encodings import ENCODINGS
from twoclocks.data.sets import holdout_set, training_set
from twoclocks.dissection import VIEWS
from twoclocks.evaluation import EvaluationSettings, Evaluator
from twoclocks.models.base import MODELS, parameter_count
from twoclocks.objectives.base import OBJECTIVES
from twoclocks.rules.base import RULES
from twoclocks.runs.settings import RunSettings, preset_names, read_preset

Rows = list[dict[str, str]]


def list_rows(kind: str) -> Rows:
    """The rows of one table, as text."""
    if kind == "presets":
        return [{"preset": name, "what it is": read_preset(name).get("description", "")} for name in preset_names()]
    if kind == "metrics":
        return metric_rows()
    if kind == "settings":
        return setting_rows()
    if kind == "models":
        return model_rows()
    if kind == "rules":
        return rule_rows()
    registries: dict[str, Registry[Any]] = {"encodings": ENCODINGS, "objectives": OBJECTIVES, "views": VIEWS}
    return registry_rows(registries[kind])


def registry_rows(registry: Registry[Any]) -> Rows:
    """One row per member: its name, the first line of its docstring, its settings."""
    return [{"name": name, "what it is": first_line(cls), "settings": arguments(cls)} for name, cls in registry.items()]


def first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().split("\n")[0].replace("``", "")


def arguments(cls: type) -> str:
    return ", ".join(item.name for item in fields(cls))


def rule_rows() -> Rows:
    """One row per rule, at its first published size."""
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
    """One row per column of every registered metric, with its chance levels for 4,096 training samples.

    The levels are those of the first rule that has the column; parity, the baseline of P1, comes first.
    """
    rows: dict[str, dict[str, str]] = {}
    for name in ["parity", *(name for name in RULES.names() if name != "parity")]:
        examples = RULES.get(name).examples
        if not examples:
            continue
        rule = RULES.create(name, **examples[0])
        train = training_set(rule, 4096)
        for column in Evaluator(rule, train, EvaluationSettings(), holdout_set(rule, train)).columns():
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
    keys = ("setting", "type", "default", "what it is")
    registered = {"rule", "encoding", "model", "objective"}
    found = [row for row in describe(RunSettings) if row[0] not in registered]
    sections: dict[str, Registry[Any]] = {
        "rule": RULES,
        "encoding": ENCODINGS,
        "model": MODELS,
        "objective": OBJECTIVES,
    }
    for section, registry in sections.items():
        found.append((f"{section}.name", "str", "", f"one of {', '.join(registry.names())}"))
        for name, cls in registry.items():
            found += [(f"{key} ({name})", *rest) for key, *rest in describe(cls, section)]  # type: ignore[misc]
    return [dict(zip(keys, row, strict=True)) for row in found]
