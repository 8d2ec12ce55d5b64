"""Tables of the documentation that come from the registries and the source tree."""

from __future__ import annotations

import ast
from pathlib import Path

from twoclocks.core.config import describe
from twoclocks.data import holdout_set, training_set
from twoclocks.dissection import VIEWS
from twoclocks.evaluation import EvaluationSettings, Evaluator
from twoclocks.report.listing import list_rows
from twoclocks.rules.base import RULES
from twoclocks.sweeps import EXECUTORS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "twoclocks"


def file_tree() -> str:
    """Every module with the first line of its docstring."""
    lines = ["src/twoclocks/"]
    for path in sorted(
        SOURCE.rglob("*"), key=lambda p: (len(p.relative_to(SOURCE).parts) == 1 and p.is_file(), str(p))
    ):
        relative = path.relative_to(SOURCE)
        if "__pycache__" in relative.parts or path.name in {"__init__.py", "py.typed"}:
            continue
        name = "  " * len(relative.parts) + path.name
        if path.is_dir():
            lines.append(f"{name}/".ljust(30) + first_line(path / "__init__.py"))
        elif path.suffix == ".py":
            lines.append(name.ljust(30) + first_line(path))
    return "```\n" + "\n".join(line.rstrip() for line in lines) + "\n```"


def first_line(path: Path) -> str:
    if not path.exists():
        return {"presets": "Settings of ready-made runs, as YAML.", "templates": "The page's HTML."}.get(
            path.parent.name, ""
        )
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0]


def rules_table() -> str:
    """Every registered rule."""
    return as_table(list_rows("rules"))


def encodings_table() -> str:
    return as_table(list_rows("encodings"))


def metrics_table() -> str:
    """Every registered metric with its columns for one rule."""
    rule = RULES.create("parity", **RULES.get("parity").examples[0])
    train = training_set(rule, 64)
    rows = []
    for metric in Evaluator(rule, train, EvaluationSettings(), holdout_set(rule, train)).metrics:
        columns = metric.columns()
        row = {
            "what it is": first_sentence(type(metric)),
            "columns (of parity)": ", ".join(f"`{c.name}`" for c in columns),
        }
        rows.append({**row, "direction": ", ".join(dict.fromkeys(column.direction for column in columns))})
    return as_table(rows)


def executors_table() -> str:
    """Every executor with its settings."""
    rows = [
        {
            "executor": name,
            "what it is": first_sentence(cls),
            "setting": f"`executor.{key}`",
            "default": value,
            "for": help,
        }
        for name, cls in EXECUTORS.items()
        for key, _, value, help in describe(cls)
    ]
    return as_table(rows)


def views_table() -> str:
    """Every view of a dissection with its settings."""
    needs = {"samples": "samples", "weights": "kept weights"}
    rows = [
        {
            "view": f"`{name}`",
            "what it shows": first_sentence(cls),
            "needs": needs[cls.reads],
            "settings (default)": ", ".join(f"`{key}` ({value}): {help}" for key, _, value, help in describe(cls)),
        }
        for name, cls in VIEWS.items()
    ]
    return as_table(rows)


def first_sentence(cls: type) -> str:
    return (cls.__doc__ or "").split("\n")[0]


def as_table(rows: list[dict[str, str]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
