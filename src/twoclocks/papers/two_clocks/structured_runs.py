"""The runs of P1 Figs. 22 and 23: DiT-mini on rows of permutations, Latin squares and Sudoku, in two encodings."""

from __future__ import annotations

from twoclocks.core.theme import light
from twoclocks.papers.figure import MissingRunsError
from twoclocks.papers.records import Records

GRIDS = ("structured",)
TASKS = {"p1-dit-row-latin": "rows only", "p1-dit-latin": "Latin square", "p1-dit-sudoku": "Sudoku"}
RULES = {"p1-dit-row-latin": "row_latin", "p1-dit-latin": "latin", "p1-dit-sudoku": "sudoku"}
ENCODINGS = {"scalar": "scalar encoding", "one_hot": "one-hot encoding"}
COLOURS = {"p1-dit-row-latin": light("new"), "p1-dit-latin": light("rule"), "p1-dit-sudoku": light("broken")}


def structured(records: Records) -> dict[tuple[str, str], Records]:
    """The runs of each encoding and preset, without those of other samplers or transposed data."""
    plain = records.those(lambda one: RULES.get(one.preset) == one.value("rule.name"))
    chosen = plain.family(("rule.", "encoding."))
    found = {
        (encoding, preset): chosen.where(preset=preset, encoding__name=encoding)
        for encoding in ENCODINGS
        for preset in TASKS
    }
    found = {key: runs for key, runs in found.items() if runs}
    if not found:
        raise MissingRunsError("no run on a Latin square or Sudoku is there; make the runs of grid 'structured'")
    return found


def missing_words(found: dict[tuple[str, str], Records]) -> str:
    """A sentence on what has not been run; empty where nothing is missing."""
    missing = [
        f"{TASKS[preset]} ({ENCODINGS[encoding]})"
        for encoding in ENCODINGS
        for preset in TASKS
        if (encoding, preset) not in found
    ]
    return f" Not run yet: {', '.join(missing)}." if missing else ""
