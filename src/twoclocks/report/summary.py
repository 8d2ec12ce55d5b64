"""One run in one plain mapping: what `--json` prints and what results/ stores."""

from __future__ import annotations

from typing import Any

from twoclocks.experiment.load import Run


def summarise(run: Run) -> dict[str, Any]:
    columns, settings = run.metrics(), run.settings
    return {
        "name": settings.name,
        "path": str(run.path),
        "model": run.title,
        "status": run.status["status"],
        **run.clocks().as_json(),
        "copy_chance": settings.rule.copy_chance(settings.data.n),
        "validity_chance": settings.rule.chance(),
        "last": {name: plain_number(float(values[-1])) for name, values in columns.items()},
        "seeds": {
            "training": settings.training.seed,
            "data": settings.data.seed,
            "evaluation": settings.evaluation.seed,
        },
    }


def plain_number(value: float) -> float | int | None:
    """JSON has no NaN; steps and trials are whole numbers."""
    if value != value:
        return None
    return int(value) if value.is_integer() else value
