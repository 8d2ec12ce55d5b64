"""P1 Fig. 22: learning curves on rows of permutations, Latin squares and Sudoku."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light
from twoclocks.evaluation import PartAccuracy, SampleAccuracy, SampleMemorization
from twoclocks.papers.drawing import log_steps, styled
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.times import seeds_words
from twoclocks.papers.two_clocks.structured_runs import (
    COLOURS,
    ENCODINGS,
    GRIDS,
    TASKS,
    missing_words,
    structured,
)
from twoclocks.report.drawings.parts import SMALL, figure_of, on_log
from twoclocks.runs.columns import LOSS_TRAIN

ROWS, COLUMNS_OF_GRID = PartAccuracy.column("row"), PartAccuracy.column("column")
COLUMNS = {
    LOSS_TRAIN: "training loss",
    SampleAccuracy.name: "valid samples",
    ROWS: "valid rows",
    COLUMNS_OF_GRID: "valid columns",
    SampleMemorization.name: "copies",
}


@dataclass(frozen=True)
class StructuredCurve:
    """One run; columns that its rule has not, or that were not stored, are missing."""

    encoding: str
    preset: str
    columns: dict[str, Floats]


@dataclass(frozen=True)
class StructuredInfo:
    n: int
    side: int
    row_chance: float  # of a row of uniform symbols
    curves: tuple[StructuredCurve, ...]
    seeds: str
    missing: str

    def last(self, encoding: str, preset: str, column: str) -> float | None:
        """Mean over the seeds at the last evaluation; None where it was not measured."""
        chosen = [c for c in self.curves if (c.encoding, c.preset) == (encoding, preset)]
        found = [float(c.columns[column][-1]) for c in chosen if column in c.columns]
        return sum(found) / len(found) if found else None


@FIGURES.register("fig22")
class StructuredCurves(PaperFigure[StructuredInfo]):
    """Rows: encodings; columns: loss, valid samples, rows and columns, copies."""

    id: ClassVar[str] = "fig22"
    title: ClassVar[str] = "Learning curves on Latin squares and Sudoku"
    shows: ClassVar[str] = "loss, valid samples, rows and columns, and copies of DiT-mini on three structured rules"
    claims: ClassVar[tuple[str, ...]] = ("A18",)
    grids: ClassVar[tuple[str, ...]] = GRIDS

    def data(self, records: Records) -> StructuredInfo:
        found = structured(records)
        curves = []
        for (encoding, preset), runs in found.items():
            for one in runs:
                columns = one.run.metrics()
                kept = {name: columns[name] for name in ("step", *COLUMNS) if name in columns}
                curves.append(StructuredCurve(encoding, preset, kept))
        first = next(iter(found.values()))[0]
        side = first.run.settings.rule.shape[0]
        chance = math.factorial(side) / side**side
        return StructuredInfo(first.n, side, chance, tuple(curves), seeds_words(found.values()), missing_words(found))

    @styled
    def draw(self, info: StructuredInfo) -> Any:
        figure = figure_of(11.4, 4.8)
        axes = figure.subplots(len(ENCODINGS), len(COLUMNS), squeeze=False)
        labelled: set[str] = set()
        for curve in info.curves:
            row = list(ENCODINGS).index(curve.encoding)
            for axis, name in zip(axes[row], COLUMNS, strict=True):
                if name not in curve.columns:
                    continue
                label = TASKS[curve.preset] if curve.preset not in labelled and name == SampleAccuracy.name else None
                labelled |= {curve.preset} if label else set()
                style = {"color": COLOURS[curve.preset], "linewidth": 1.3, "label": label}
                axis.plot(on_log(curve.columns["step"]), curve.columns[name], **style)
        for row, encoding in enumerate(ENCODINGS.values()):
            axes[row, 0].set_ylabel(encoding)
            for axis, (name, title) in zip(axes[row], COLUMNS.items(), strict=True):
                finish(axis, info, name)
                if not row:
                    axis.set_title(title, fontsize=9)
        for axis in axes[-1]:
            axis.set_xlabel("training step", fontsize=8.5)
        lines = [axis.get_legend_handles_labels() for axis in axes[:, 1]]
        handles, labels = ([one for part in lines for one in part[k]] for k in (0, 1))
        figure.legend(handles, labels, loc="outside upper right", ncols=3, **SMALL)
        return figure

    def caption(self, info: StructuredInfo) -> str:
        said = []
        for encoding in ENCODINGS:
            for preset, task in TASKS.items():
                shares = {name: info.last(encoding, preset, name) for name in COLUMNS if name != LOSS_TRAIN}
                words = [f"{value:.0%} {COLUMNS[name]}" for name, value in shares.items() if value is not None]
                if words:
                    said.append(f"{task}, {ENCODINGS[encoding]}: {', '.join(words)}")
        return (
            f"DiT-mini on {info.side}×{info.side} grids with N = {info.n:,}, one curve per seed; dotted: rows of "
            f"uniform symbols that are valid by chance ({info.row_chance:.1%}). At the last evaluation, mean over "
            f"{info.seeds}: {'; '.join(said)}.{info.missing} P1: rows only are learned fast, valid columns come much "
            "later than valid rows, and copies are fewer with one-hot encoding."
        )


def finish(axis: Any, info: StructuredInfo, name: str) -> None:
    """Axes of one panel, and the chance level of rows and columns."""
    axis.tick_params(labelsize=8)
    if name != LOSS_TRAIN:
        axis.set_ylim(-0.02, 1.04)
    if name in (ROWS, COLUMNS_OF_GRID):
        axis.axhline(info.row_chance, color=light("muted"), linestyle=":", linewidth=1)
    steps = [curve.columns["step"] for curve in info.curves]
    first = min(float(on_log(one[one > 0])[0]) for one in steps)
    axis.set_xlim(first, max(float(one[-1]) for one in steps))
    log_steps(axis, "x")
