"""Tables of everything that is registered: rules, encodings, models, views, settings, metrics, commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from docparts.formatting import as_table
from twoclocks.cli import make_parser
from twoclocks.core.config import describe
from twoclocks.data import holdout_set, omitted_contents, training_set
from twoclocks.dissection import VIEWS
from twoclocks.evaluation import EvaluationSettings, Evaluator
from twoclocks.report.listing import list_rows
from twoclocks.rules.base import RULES
from twoclocks.sweeps import EXECUTORS


def listing(kind: str) -> str:
    """The table that ``twoclocks list KIND`` prints."""
    return as_table(list_rows(kind))


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
    needs = {"samples": "samples", "weights": "stored weights"}
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


def metric_families_table() -> str:
    """Every registered metric with its columns for one rule."""
    rule = RULES.create("parity", **RULES.get("parity").examples[0])
    train = training_set(rule, 64)
    rows = []
    holdout, omitted = holdout_set(rule, train), omitted_contents(rule, 1, seed=0)
    for metric in Evaluator(rule, train, EvaluationSettings(), holdout, omitted).metrics:
        columns = metric.columns()
        named = ", ".join(f"`{column.name}`" for column in columns)
        row = {"what it is": first_sentence(type(metric)), "columns (of parity)": named}
        rows.append({**row, "direction": ", ".join(dict.fromkeys(column.direction for column in columns))})
    return as_table(rows)


def commands_table() -> str:
    """Every command with its help, as ``twoclocks --help`` prints it."""
    _, commands = make_parser()
    rows = [{"command": f"`twoclocks {name}`", "what it does": one.description or ""} for name, one in commands.items()]
    return as_table(rows)


def first_sentence(cls: type) -> str:
    """The first line of a class's docstring."""
    return (cls.__doc__ or "").split("\n")[0]


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands_table,
    "encodings": partial(listing, "encodings"),
    "executors": executors_table,
    "metric families": metric_families_table,
    "metrics": partial(listing, "metrics"),
    "models": partial(listing, "models"),
    "objectives": partial(listing, "objectives"),
    "presets": partial(listing, "presets"),
    "rules": partial(listing, "rules"),
    "settings": partial(listing, "settings"),
    "views": views_table,
}
