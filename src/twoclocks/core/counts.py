"""Proportions in stored rows: a row holds integer hits and trials; the proportion is derived when it is read.

A proportion ``x`` is stored as ``x_hits`` out of ``trials``, the number of samples of the row; where it is out of
something else, such as pieces of samples, ``x_trials`` says of how many. Rows of format 2 hold ``x`` itself, a float.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from twoclocks.core.errors import UserError

TRIALS = "trials"  # the number of samples of a row
HITS_SUFFIX, TRIALS_SUFFIX = "_hits", "_trials"
ROUNDING = 1e-6  # by which proportion times trials may miss an integer

Row = Mapping[str, float]


def hits_key(name: str) -> str:
    """The key under which a row stores the hits of a proportion."""
    return f"{name}{HITS_SUFFIX}"


def trials_key(name: str) -> str:
    """The key under which a row stores the trials of a proportion, where they are not the row's samples."""
    return f"{name}{TRIALS_SUFFIX}"


def hits_of(row: Row, name: str) -> int:
    """The hits of a proportion; of a row of format 2, those of a proportion of samples, which alone can be derived.

    >>> hits_of({"trials": 8, "copied_hits": 3}, "copied"), hits_of({"trials": 8, "copied": 0.375}, "copied")
    (3, 3)
    """
    if hits_key(name) in row:
        return int(row[hits_key(name)])
    hits = row[name] * row[TRIALS]  # a row of format 2
    if not (math.isfinite(hits) and abs(hits - round(hits)) <= ROUNDING):
        share = f"{row[name]:.6g} of {row[TRIALS]:g} samples, which is no count"
        raise UserError(f"column {name!r} is {share}; read the value itself, not its hits")
    return round(hits)


def trials_of(row: Row, name: str) -> int:
    """The trials of a proportion; rows of format 2 know only their number of samples."""
    return int(row.get(trials_key(name), row[TRIALS]))


def is_stored(row: Row, name: str) -> bool:
    """Whether the row holds this value, in either form."""
    return name in row or hits_key(name) in row


def scaled_hits(row: Row, name: str) -> float:
    """The hits of a proportion of pieces as a number of samples: pieces of one sample are one trial together.

    >>> scaled_hits({"trials": 10, "rows_hits": 45, "rows_trials": 60}, "rows")
    7.5
    """
    if hits_key(name) in row:
        return hits_of(row, name) * row[TRIALS] / trials_of(row, name)
    return row[name] * row[TRIALS]  # a row of format 2


def values_of(row: Row) -> dict[str, float]:
    """The row with every proportion as a float: NaN out of no trials; whatever is no count stays as it is.

    >>> values_of({"step": 5, "trials": 4, "valid_hits": 3})
    {'step': 5, 'trials': 4, 'valid': 0.75}
    """
    found: dict[str, float] = {}
    for key, value in row.items():
        name = key.removesuffix(HITS_SUFFIX)
        if name != key:
            trials = trials_of(row, name)
            found[name] = value / trials if trials else math.nan
        elif hits_key(key.removesuffix(TRIALS_SUFFIX)) not in row:
            found[key] = value
    return found
