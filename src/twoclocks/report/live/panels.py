"""The curves of a page as plain values: which columns are drawn, in which panel, at which steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from twoclocks.core.arrays import Floats

MOST_POINTS = 500  # per curve; a screen has hardly more columns


@dataclass(frozen=True)
class Curve:
    key: str  # the column
    label: str
    colour: str  # a name of the theme
    dashed: bool = False


@dataclass(frozen=True)
class Level:
    """A horizontal line: a chance level or a threshold."""

    label: str
    colour: str
    value: float


@dataclass(frozen=True)
class Panel:
    """Curves over the training step, with one vertical axis: from 0 to 1 (``share``), logarithmic or linear."""

    title: str
    curves: tuple[Curve, ...]
    levels: tuple[Level, ...] = ()
    scale: Literal["share", "log", "linear"] = "share"

    def as_json(self, steps: Sequence[float], values: Mapping[str, Sequence[float]]) -> dict[str, Any]:
        """The panel with its points; a log axis has no place for step 0."""
        step = np.asarray(steps, dtype=np.float64)
        columns = [np.asarray(values[curve.key], dtype=np.float64) for curve in self.curves]
        shown = np.flatnonzero(step > 0)
        kept = shown[thinned(step[shown], [column[shown] for column in columns])] if len(shown) else shown
        curves = [
            {**asdict(curve), "values": [plain(value) for value in column[kept]]}
            for curve, column in zip(self.curves, columns, strict=True)
        ]
        levels = [asdict(level) for level in self.levels]
        at = [plain(value) for value in step[kept]]
        return {"title": self.title, "scale": self.scale, "steps": at, "curves": curves, "levels": levels}


def thinned(steps: Floats, columns: Sequence[Floats], most: int = MOST_POINTS) -> Any:
    """Indices of at most ``most`` steps: the first, the last, and the extremes of each column in bins of equal width.

    The bins are those of a logarithmic axis, on which the steps are drawn.

    >>> thinned(np.arange(1.0, 10_001), [np.eye(1, 10_000, 777)[0]], most=50)[[0, -1]].tolist()
    [0, 9999]
    """
    if len(steps) <= most:
        return np.arange(len(steps))
    bins = max(1, (most - 2) // (2 * max(1, len(columns))))
    place = np.log(steps / steps[0]) / math.log(steps[-1] / steps[0])
    edges = np.searchsorted(place, np.linspace(0, 1, bins + 1)[1:-1])
    kept = {0, len(steps) - 1}
    for inside in np.split(np.arange(len(steps)), edges):
        for column in columns:
            values = column[inside]
            known = inside[np.isfinite(values)]
            if len(known):
                kept |= {int(known[np.argmin(column[known])]), int(known[np.argmax(column[known])])}
    return np.array(sorted(kept))


def plain(value: float) -> float | int | None:
    """A number for JSON, with the digits that a screen shows; NaN and infinities are null."""
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else float(f"{value:.5g}")
