"""Names of metrics and of loss columns are written once: elsewhere the objects that own them are used."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from twoclocks.data import holdout_set, training_set
from twoclocks.evaluation import EvaluationSettings, Evaluator
from twoclocks.rules.base import RULES
from twoclocks.runs import columns

ROOT = Path(__file__).parents[2]
OWNERS = (ROOT / "src" / "twoclocks" / "evaluation", ROOT / "src" / "twoclocks" / "runs" / "columns.py")
# Pieces of names that are put together, such as f"{kind}_accuracy" or name.endswith("_accuracy").
PATTERN = re.compile(r"_(accuracy|memorization|omitted|entropy)$|^(invalid|loss)_$|^nearest_distance")


def names() -> set[str]:
    """Every column of every rule, and those of the losses."""
    found = {columns.LOSS_TRAIN, columns.LOSS_HELD_OUT, columns.LOSS_CUBE, columns.LOSS_GAP_ERROR}
    for name, cls in RULES.items():
        for example in cls.examples[:1]:
            rule = RULES.create(name, **example)
            train = training_set(rule, 8)
            made = Evaluator(rule, train, EvaluationSettings(), holdout_set(rule, train))
            found |= {column.name for column in made.columns()}
    return found


def literals(source: str) -> list[tuple[int, str]]:
    """Strings and parts of f-strings with their lines, besides docstrings."""
    tree = ast.parse(source)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
    ]


def misplaced(source: str, known: set[str]) -> list[str]:
    return [f"{line}: {text!r}" for line, text in literals(source) if text in known or PATTERN.search(text)]


def test_no_name_of_a_metric_is_written_outside_of_evaluation() -> None:
    known, found = names(), {}
    assert {"sample_accuracy", "group_accuracy", "invalid_0.5", "layer_1_entropy", "loss_cube"} <= known
    for folder in ("src", "tools", "benchmarks", "studies", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            if not any(path.is_relative_to(owner) for owner in OWNERS):
                lines = misplaced(path.read_text(encoding="utf-8"), known)
                found |= {str(path.relative_to(ROOT)): lines} if lines else {}
    assert not found, "use the metric's own attribute, as in SampleAccuracy.name"


@pytest.mark.parametrize(
    "source",
    [
        'x = columns["sample_accuracy"]',
        'x = columns[f"{kind}_accuracy"]',
        'x = name.endswith("_memorization")',
        'x = row[f"invalid_{threshold:g}"]',
        'x = row[f"loss_{split}"]',
        'KEPT = ("step", "loss_train")',
    ],
)
def test_literals_are_recognised(source: str) -> None:
    assert misplaced(source, {"sample_accuracy", "loss_train"})
    assert not misplaced(
        'def f():\n    """Like sample_accuracy."""\n    return SampleAccuracy.name', {"sample_accuracy"}
    )
