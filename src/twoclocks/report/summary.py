"""One run as plain values: what `--json` prints, what results/ stores, and the rows of tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks
from twoclocks.evaluation.metric import pieces_named
from twoclocks.runs.load import SEEDED, Run

if TYPE_CHECKING:  # imports torch
    from twoclocks.evaluation.controls import Control


def summarise(run: Run, controls: bool = False) -> dict[str, Any]:
    """The result of a run as plain values; ``controls`` adds what local statistics alone would score."""
    run = run.reading()
    columns, settings = run.metrics(), run.stored_settings
    found = {"controls": [asdict(one) for one in run_controls(run)]} if controls else {}
    return {
        "name": settings["name"],
        "path": str(run.path),
        "model": run.title,
        "status": run.status["status"],
        **{key: run.status[key] for key in ("stopped_at", "reason", "lost") if key in run.status},
        **({"unproven_end": run.unproven_end} if run.unproven_end else {}),
        "n": settings["data"]["n"],
        **run.clocks().as_json(),
        **({"averaged": run.clocks(weights="averaged").as_json()} if run.has_averages else {}),
        "copy_chance": run.copy_chance,
        "validity_chance": run.derived["validity_chance"],
        "last": {name: plain_number(float(values[-1])) for name, values in columns.items()},
        **found,
        "seeds": {section: settings[section]["seed"] for section in SEEDED},
    }


def plain_number(value: float) -> float | int | None:
    """A number for JSON, which has no NaN; steps and trials become integers."""
    if value != value:
        return None
    return int(value) if value.is_integer() else value


def named_onsets(clocks: Clocks) -> dict[str, Onset]:
    """Every onset of a run by name; those of pieces only where a rule has several kinds of them."""
    found = {"τ_rule": clocks.rule} if clocks.has_rule else {}
    if clocks.generation is not None:
        found["τ_gen"] = clocks.generation
    found["τ_mem"] = clocks.memory
    if clocks.extraction is not None:
        found["τ_ext"] = clocks.extraction
    if clocks.gap is not None:
        found["τ_gap"] = clocks.gap
    if len(clocks.parts) > 1:
        found |= {f"valid {pieces_named(kind)}": one for kind, one in clocks.parts.items()}
    return found | {f"change of {name}": one for name, one in clocks.changes.items()}


def onset_rows(run: Run) -> list[dict[str, str]]:
    """One row per onset, as text."""

    def text(value: float | None) -> str:
        return "" if value is None else f"{value:,.0f}"

    return [
        {
            "run": run.label,
            "onset": name,
            "in": str(one),
            "status": one.status,
            "interpolated": text(one.interpolated),
            "first crossing": text(one.first_crossing),
            "definition": one.definition or "",
        }
        for name, one in named_onsets(run.clocks()).items()
    ]


def run_controls(run: Run) -> list[Control]:
    """The controls of a run's rule and training set."""
    from twoclocks.evaluation.controls import controls_of

    return controls_of(run.settings.rule, run.evaluator.train, copy_run=run.settings.evaluation.copy_run)


def control_rows(run: Run) -> list[dict[str, str]]:
    """One row per control, as text."""

    def share(value: float, ends: tuple[float, float]) -> str:
        return f"{value:.2%} ({ends[0]:.2%} to {ends[1]:.2%})"

    return [
        {
            "run": run.label,
            "model of": one.name,
            **({"valid": share(one.validity, one.validity_ci)} if run.settings.rule.has_rule else {}),
            "copies": share(one.copies, one.copies_ci),
        }
        for one in run_controls(run)
    ]
