"""One row a cell, as Parquet for programs and CSV for everybody."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twoclocks.store.files import write_atomic

Row = dict[str, Any]


def columns(rows: Sequence[Row]) -> list[str]:
    """All columns, in the order of their first appearance: cells of different models have different settings."""
    return list(dict.fromkeys(key for row in rows for key in row))


def write_table(rows: Sequence[Row], folder: Path) -> tuple[Path, Path]:
    """``table.parquet`` and ``table.csv`` with the same content."""
    import pyarrow
    from pyarrow import parquet

    names = columns(rows)
    data = {name: unified([row.get(name) for row in rows]) for name in names}
    buffer = io.BytesIO()
    arrays = {name: pyarrow.array(values, kind_of(name, values)) for name, values in data.items()}
    parquet.write_table(pyarrow.table(arrays), buffer)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(["" if value is None else value for value in line] for line in zip(*data.values(), strict=True))
    paths = folder / "table.parquet", folder / "table.csv"
    write_atomic(paths[0], buffer.getvalue())
    write_atomic(paths[1], text.getvalue().encode())
    return paths


def unified(column: list[Any]) -> list[Any]:
    """One type a column: whole numbers become fractions where both occur, and text where nothing else fits all."""
    kinds = {type(value) for value in column if value is not None}
    if kinds <= {int, float} and len(kinds) == 2:
        return [None if value is None else float(value) for value in column]
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in column]
    return column


def kind_of(name: str, column: list[Any]) -> Any:
    """Arrow's type where the values do not tell it: tables of different sweeps must fit together."""
    import pyarrow

    if any(value is not None for value in column):
        return None
    measured = name.startswith(("tau_", "window_", "last_", "seconds")) and not name.endswith("_status")
    return pyarrow.float64() if measured else pyarrow.string()
