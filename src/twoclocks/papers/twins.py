"""Twins for figures and claims: two runs on disjoint data, compared while their weights are there, kept as numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from twoclocks.analysis.twins import compare_twins
from twoclocks.core.errors import UserError
from twoclocks.papers.as_printed import alike_settings
from twoclocks.papers.records import Record
from twoclocks.runs.load import Run
from twoclocks.runs.rows import StoredRun, file_name
from twoclocks.runs.settings import RunSettings
from twoclocks.store.files import make_folder, read, write_json
from twoclocks.store.folders import DERIVED


def twins_file(rows: Path) -> Path:
    """The file of a comparison beside the rows of its first run."""
    return rows.with_name(f"{rows.stem}.twins.json")


def comparison(folder: Path, settings: RunSettings) -> Path:
    """The file that compares a run with its twin, whichever of the two has these settings."""
    first = replace(settings, data=replace(settings.data, part=0))
    return twins_file(folder / file_name(first))


def write_twins(first: Run, second: Run, folder: Path) -> Path:
    """Compare two finished runs, and write the numbers beside the rows of the first, and into its run directory.

    τ_mem is P1's threshold of copies, whatever the runs end at.
    """
    path = twins_file(folder / file_name(first.settings))
    found = compare_twins(first, second, how=alike_settings(first.settings.clocks)).numbers()
    make_folder(derived_file(first).parent)
    for place in (derived_file(first), path):
        write_json(place, {"commit": first.manifest["commit"], "twin": file_name(second.settings), **found})
    return path


def derived_file(run: Run) -> Path:
    return run.path / DERIVED / "twins.json"


def twins_of(record: Record) -> dict[str, Any] | None:
    """The comparison of a run with its twin; None where there is none."""
    path = twins_file(record.run.path) if isinstance(record.run, StoredRun) else derived_file(record.run)
    if not path.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(read(path))
    except ValueError as error:
        raise UserError(f"{path}: holds no comparison of twins ({error}); restore the file") from None
    return found
