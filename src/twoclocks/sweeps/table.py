"""The table of a sweep, one row per cell, as Parquet and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twoclocks.store.files import Guard, unguarded, write_atomic

Row = dict[str, Any]


def column_names(rows: Sequence[Row]) -> list[str]:
    """Names of all columns in the order of their first occurrence; cells may have different settings."""
    return list(dict.fromkeys(key for row in rows for key in row))


def write_table(rows: Sequence[Row], folder: Path, guard: Guard = unguarded) -> tuple[Path, Path]:
    """Write ``table.parquet`` and ``table.csv`` with the same content."""
    import pyarrow
    from pyarrow import parquet

    names = column_names(rows)
    data = {name: with_one_type([row.get(name) for row in rows]) for name in names}
    buffer = io.BytesIO()
    arrays = {name: pyarrow.array(values, arrow_type(name, values)) for name, values in data.items()}
    parquet.write_table(pyarrow.table(arrays), buffer)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(["" if value is None else value for value in line] for line in zip(*data.values(), strict=True))
    paths = folder / "table.parquet", folder / "table.csv"
    write_atomic(paths[0], buffer.getvalue(), guard)
    write_atomic(paths[1], text.getvalue().encode(), guard)
    return paths


def with_one_type(column: list[Any]) -> list[Any]:
    """Convert a column to one type: integers and floats to floats, other mixtures to text.

    A seed may be any integer; a column with one that does not fit 64 bits becomes text, so that no digit is lost.
    """
    kinds = {type(value) for value in column if value is not None}
    if int in kinds and not all(-(2**63) <= value < 2**63 for value in column if isinstance(value, int)):
        return [None if value is None else str(value) for value in column]
    if kinds <= {int, float} and len(kinds) == 2:
        return [None if value is None else float(value) for value in column]
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in column]
    return column


def arrow_type(name: str, column: list[Any]) -> Any:
    """The Arrow type of a column without values (None: from the values), so that tables of sweeps can be joined."""
    import pyarrow

    if any(value is not None for value in column):
        return None
    measured = name.startswith(("tau_", "window_", "last_", "seconds")) and not name.endswith("_status")
    return pyarrow.float64() if measured else pyarrow.string()
