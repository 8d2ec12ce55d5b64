"""The rows of P1's Figs. 8 and 9: accuracy and memorization over training by N, one row per group size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from twoclocks.analysis.groups import grouped
from twoclocks.core.theme import light
from twoclocks.papers.drawing import BY_SIZE, colours_of, explain, name_panel, new_figure
from twoclocks.papers.figure import MissingRunsError, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.clock_panels import onset_words
from twoclocks.papers.two_clocks.curves import MODELS, RunCurves, clock_runs, seeds_words, some_curves
from twoclocks.papers.two_clocks.panels import accuracy, draw_family, memorization, proportion_axis
from twoclocks.papers.two_clocks.runs import DIT
from twoclocks.report.drawings.parts import SMALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEFT_TO_RIGHT = ("Left", "Mid.", "Right")


@dataclass(frozen=True)
class BySizeInfo:
    """The data of the figure."""

    groups: tuple[int, ...]  # of the rows, those without runs too
    runs: tuple[RunCurves, ...]

    def of(self, group: int) -> list[RunCurves]:
        return [one for one in self.runs if one.group == group]

    @property
    def missing(self) -> list[int]:
        return [group for group in self.groups if not self.of(group)]


class BySize(PaperFigure[BySizeInfo]):
    """Curves by N for some group sizes."""

    groups: ClassVar[tuple[int, ...]]
    claims: ClassVar[tuple[str, ...]] = ("A3", "A4", "A6", "A7", "A8", "A9")
    grids: ClassVar[tuple[str, ...]] = ("calibration-memory", "dit-rule", "dit-groups", "dit-law")

    def data(self, records: Records) -> BySizeInfo:
        runs = tuple(one for one in some_curves(records, DIT) if one.group in self.groups)
        if not runs:
            words = ", ".join(map(str, self.groups))
            raise MissingRunsError(f"runs: there is none of {MODELS[DIT]} with G = {words}; make the runs first")
        return BySizeInfo(self.groups, runs)

    def draw(self, info: BySizeInfo) -> Figure:
        from matplotlib.lines import Line2D

        colours = colours_of([one.n for one in info.runs], BY_SIZE)
        with new_figure(10.6, 0.9 + 2.15 * len(info.groups)) as figure:
            axes = figure.subplots(len(info.groups), 3, squeeze=False)
            for row, group in zip(axes, info.groups, strict=True):
                draw_row(row, info.of(group), group, colours)
            handles = [Line2D([], [], color=shade, linewidth=2, label=f"N = {n:,}") for n, shade in colours.items()]
            chance = Line2D([], [], color=light("muted"), linestyle=":", label="memorization of the rule's own samples")
            figure.legend(handles=[*handles, chance], loc="outside lower center", ncols=6, **SMALL)
            return figure

    def caption(self, info: BySizeInfo) -> str:
        rows = [
            f"G = {group}, N = {n:,}: {onset_words(runs, 'rule')} / {onset_words(runs, 'memory')}"
            for group in info.groups
            for n, runs in grouped(info.of(group), lambda one: one.n).items()
        ]
        seen = f"τ_rule / τ_mem in steps ({seeds_words(info.runs)}): {'; '.join(rows)}." if rows else ""
        missing = f"Not run yet: G = {', '.join(map(str, info.missing))}." if info.missing else ""
        parts = [
            f"{MODELS[DIT]}: rule accuracy (left) and memorization over steps (middle) and over steps·batch/N (right).",
            seen,
            "Paper: accuracy hardly depends on N where the rule is learned; memorization over steps·batch/N collapses.",
            missing,
        ]
        return " ".join(part for part in parts if part)


def draw_row(row: Sequence[Any], runs: Sequence[RunCurves], group: int, colours: dict[int, Any]) -> None:
    """The three panels of a group size."""
    titles = ("rule accuracy", "memorization", "memorization by passes")
    for axis, where, title in zip(row, LEFT_TO_RIGHT, titles, strict=True):
        name_panel(axis, where, f"G = {group}: {title}")
        if not runs:
            explain(axis, f"not run yet: G = {group}")
    if not runs:
        return
    copying = clock_runs(runs, "memory") or runs
    draw_family(row[0], runs, accuracy, lambda one: one.n, colours)
    draw_family(row[1], copying, memorization, lambda one: one.n, colours)
    draw_family(row[2], copying, memorization, lambda one: one.n, colours, by_passes=True)
    for axis, label in zip(row, ("proportion of samples", "", ""), strict=True):
        proportion_axis(axis, label)
    for axis in row[1:]:
        for n, chance in {one.n: one.copy_chance for one in runs}.items():
            axis.axhline(chance, color=colours[n], linestyle=":", linewidth=0.9)
