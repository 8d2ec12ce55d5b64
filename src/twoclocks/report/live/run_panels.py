"""Which curves the page of a run shows: proportions of samples, losses and, of images, their quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from twoclocks.clocks.settings import ClockSettings
from twoclocks.core.errors import UserError
from twoclocks.evaluation.quality.metrics import FRECHET
from twoclocks.evaluation.whole_samples import SampleAccuracy, SampleMemorization, ValidNew
from twoclocks.report.live.panels import Curve, Level, Panel
from twoclocks.report.live.watched import Json
from twoclocks.runs.columns import LOSS_CUBE, LOSS_HELD_OUT, LOSS_TRAIN

PROPORTIONS = (
    Curve(SampleAccuracy.name, "valid", "rule"),
    Curve(SampleMemorization.name, "copies", "memory"),
    Curve(ValidNew.name, "valid and new", "new", dashed=True),
)
LOSSES = (
    Curve(LOSS_TRAIN, "training set", "memory"),
    Curve(LOSS_HELD_OUT, "unseen samples", "new"),
    Curve(LOSS_CUBE, "uniform symbols", "muted", dashed=True),
)
QUALITY = (Curve(FRECHET, "samples", "new"),)


class RunPanels:
    """The panels of one run; ``metrics`` are the columns that its manifest describes, with their chance levels."""

    keys = tuple(curve.key for curve in (*PROPORTIONS, *LOSSES, *QUALITY))

    def __init__(self, metrics: Sequence[Mapping[str, Any]], clocks: ClockSettings) -> None:
        self.described = {entry["name"]: entry for entry in metrics}
        self.clocks = clocks

    def drawn(self, rows: Sequence[Mapping[str, float]], copy_chance: float) -> list[Json]:
        """All panels that have a column in these rows."""
        steps = [row["step"] for row in rows]
        there = {key for row in (*rows[:1], *rows[-1:]) for key in row}
        values = {key: [row.get(key, math.nan) for row in rows] for key in self.keys if key in there}
        titles = {"proportion of samples": PROPORTIONS, "loss on": LOSSES, "Fréchet distance": QUALITY}
        found = []
        for title, curves in titles.items():
            shown = tuple(curve for curve in curves if curve.key in values)
            if shown:
                levels = self.levels(shown, copy_chance)
                found.append(
                    Panel(title, shown, levels, "share" if curves is PROPORTIONS else "log").as_json(steps, values)
                )
        return found

    def levels(self, curves: Sequence[Curve], copy_chance: float) -> tuple[Level, ...]:
        """Thresholds of the clocks, and what real images would score."""
        keys, found = [curve.key for curve in curves], []
        if SampleAccuracy.name in keys:
            found.append(Level("rule threshold", "rule", self.clocks.rule_threshold))
        if SampleMemorization.name in keys:
            try:
                level = self.clocks.memory_levels(copy_chance).nominal
                found.append(Level("memory threshold", "memory", level))
            except UserError:  # an impossible threshold, which the state of the run says
                pass
        if FRECHET in keys and (floor := self.described.get(FRECHET, {}).get("chance_rule")):
            found.append(Level("held-out images", "muted", floor))
        return tuple(found)
