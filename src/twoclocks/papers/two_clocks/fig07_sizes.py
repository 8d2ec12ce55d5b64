"""P1 Fig. 7: accuracy and memorization at the end of training, over group size and N."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from twoclocks.papers.drawing import new_figure
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.curves import MODELS, plain_records, some_curves
from twoclocks.papers.two_clocks.endpoints import (
    LEGEND,
    Column,
    columns_by,
    draw_columns,
    ended_words,
    endpoint_words,
)
from twoclocks.papers.two_clocks.runs import DIT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SIZES = 6  # numbers of samples that have a column


@dataclass(frozen=True)
class SizesInfo:
    """The data of the figure."""

    columns: tuple[Column, ...]  # one per N


@FIGURES.register("fig7")
class Sizes(PaperFigure[SizesInfo]):
    """Accuracy and memorization over group size and N."""

    id: ClassVar[str] = "fig7"
    title: ClassVar[str] = "Memorization and creativity over the number of training samples"
    shows: ClassVar[str] = (
        "Memorization on top of accuracy at the end of training, over the group size, one column per N: A groups, B "
        "samples; lines show the memorization of the rule's own samples and of uniform bits. Its caption is cut."
    )
    claims: ClassVar[tuple[str, ...]] = ("A3", "A9", "A11")
    grids: ClassVar[tuple[str, ...]] = ("dit-groups", "dit-law")

    def data(self, records: Records) -> SizesInfo:
        some_curves(records, DIT, clock="memory")  # or an error
        return SizesInfo(shown_sizes(columns_by(plain_records(records, DIT), lambda one: one.n)))

    def draw(self, info: SizesInfo) -> Figure:
        with new_figure(1.0 + 2.7 * max(len(info.columns), 2), 5.6) as figure:
            axes = figure.subplots(2, len(info.columns), squeeze=False)
            draw_columns(axes, info.columns, {"group": "A", "sample": "B"})
            figure.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, **LEGEND)
            return figure

    def caption(self, info: SizesInfo) -> str:
        by_size = [(column.first.n, column.samples) for column in info.columns]
        words = [f"N = {n:,} ({ended_words(ends)}): {endpoint_words(ends)}" for n, ends in by_size]
        return (
            f"Accuracy (pale) and memorization (dark) of {MODELS[DIT]} at the last evaluation, over the group size. "
            f"Valid / copied samples by G: {'; '.join(words)}. Paper: more training samples, less memorization; "
            "samples of the rule itself are copies with chance N / 2^(36−36/G)."
            + ("" if any(column.groups for column in info.columns) else " These runs did not count groups (A).")
        )


def shown_sizes(found: Mapping[int, Column]) -> tuple[Column, ...]:
    """The numbers of samples that have a column: those with the most group sizes, then the largest; in order of N."""
    groups = {n: len({one.group for one in column.samples}) for n, column in found.items()}
    shown = sorted(groups, key=lambda n: (-groups[n], -n))[:MOST_SIZES]
    return tuple(found[n] for n in sorted(shown))
