"""A18: in Latin squares and Sudoku the rows are learned before the columns, rows alone at once (P1 Figs. 22 and 23)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from twoclocks.clocks import Onset, onset
from twoclocks.papers.recipe import AS_PRINTED, LEAN, RECIPES, Measurement, Recipe, Verdict
from twoclocks.runs import Run, RunSettings, load_settings

STEPS, SAMPLES, THRESHOLD, SOON = 60_000, 1_024, 0.85, 1_000
ENCODINGS: dict[str, dict[str, Any]] = {
    "scalar": {"name": "scalar"},
    "one-hot": {"name": "one_hot", "zero_mean": True},
}
ROWS_ALONE = "row-latin-scalar"


@RECIPES.register("p1-structured")
class Structured(Recipe):
    """DiT-mini on 6×6 grids of symbols, with 1,024 training samples each."""

    claim: ClassVar[str] = "A18 (order of learning)"
    paper: ClassVar[str] = "Latin squares and Sudoku: rows before columns; rows alone are learned within about 1k steps"
    criterion: ClassVar[str] = (
        "85% valid rows come before 85% valid columns in every Latin and Sudoku run; rows alone by step 1,000"
    )

    def settings(self, device: str) -> dict[str, RunSettings]:
        shared = {
            "data": {"n": SAMPLES},
            "clocks": AS_PRINTED,
            "training": {"steps": STEPS, "device": device},
            "evaluation": {"evaluations": 45, "first": 50, **LEAN},
        }
        runs = {}
        for name in ("latin", "sudoku"):
            for label, encoding in ENCODINGS.items():
                runs[f"{name}-{label}"] = load_settings(f"p1-dit-{name}", {**shared, "encoding": encoding})
        short = {**shared, "training": {"steps": 3_000, "device": device}}
        return {ROWS_ALONE: load_settings("p1-dit-row-latin", short), **runs}

    def measure(self, runs: Mapping[str, Run]) -> Measurement:
        rows = {label: part_onset(run, "row") for label, run in runs.items()}
        columns = {label: part_onset(run, "column") for label, run in runs.items() if label != ROWS_ALONE}
        whole = {label: run.clocks().rule for label, run in runs.items()}
        words = [f"{label} rows {rows[label]}, columns {columns[label]}, all {whole[label]}" for label in columns]
        if ROWS_ALONE in runs:
            words.insert(0, f"rows alone: {whole[ROWS_ALONE]}")
        values = {
            label: {
                "row": rows[label].as_json(),
                **({"column": columns[label].as_json()} if label in columns else {}),
                "all": whole[label].as_json(),
            }
            for label in runs
        }
        # A clock that did not strike leaves its lower end: columns that never come still come later.
        ordered = all(rows[label].upper <= columns[label].lower for label in columns)
        soon = ROWS_ALONE in runs and whole[ROWS_ALONE].upper <= SOON
        # Where neither has come the run was too short: it says nothing about their order.
        undecided = any({rows[label].status, columns[label].status} == {"right-censored"} for label in columns)
        complete = len(runs) == 1 + 2 * len(ENCODINGS) and not undecided
        verdict: Verdict = "unfinished" if not complete else "reproduced" if ordered and soon else "not reproduced"
        return Measurement(verdict, f"{'; '.join(words)} (N={SAMPLES:,}, 1 seed)", values)


def part_onset(run: Run, kind: str) -> Onset:
    """When most pieces of one kind became valid."""
    series = run.series()
    assert series.parts is not None
    hits = np.rint(series.parts[kind])
    return onset(series.steps, hits, series.trials, THRESHOLD, sustain=run.settings.clocks.sustain)
