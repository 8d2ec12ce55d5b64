"""P1 Fig. 7: accuracy and memorization at the end of training, over group size and N."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.curves import MODELS, plain_records, some_curves
from twoclocks.papers.two_clocks.endpoints import (
    LEGEND,
    Endpoint,
    Level,
    draw_endpoints,
    ended_words,
    endpoint_words,
    endpoints,
)
from twoclocks.papers.two_clocks.panels import name_panel, styled
from twoclocks.papers.two_clocks.runs import DIT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SIZES = 6  # numbers of samples that have a column


@dataclass(frozen=True)
class SizesInfo:
    """The data of the figure."""

    sizes: tuple[int, ...]
    samples: tuple[Endpoint, ...]
    groups: tuple[Endpoint, ...]

    def of(self, level: Level, n: int) -> list[Endpoint]:
        return [one for one in (self.samples if level == "sample" else self.groups) if one.n == n]


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
        chosen = plain_records(records, DIT)
        samples, groups = endpoints(chosen, "sample"), endpoints(chosen, "group")
        return SizesInfo(shown_sizes(samples), samples, groups)

    def draw(self, info: SizesInfo) -> Figure:
        with styled(1.0 + 2.7 * max(len(info.sizes), 2), 5.6) as figure:
            places = sorted({one.group for one in info.samples})
            axes = figure.subplots(2, len(info.sizes), squeeze=False)
            levels: tuple[tuple[str, Level], ...] = (("A", "group"), ("B", "sample"))
            for row, (letter, level) in zip(axes, levels, strict=True):
                for column, (axis, n) in enumerate(zip(row, info.sizes, strict=True)):
                    draw_endpoints(axis, info.of(level, n), level, places, labelled=not column)
                    name_panel(axis, "" if column else letter, f"{level}s, N = {n:,}")
            figure.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, **LEGEND)
            return figure

    def caption(self, info: SizesInfo) -> str:
        by_size = [(n, info.of("sample", n)) for n in info.sizes]
        words = [f"N = {n:,} ({ended_words(ends)}): {endpoint_words(ends)}" for n, ends in by_size]
        return (
            f"Accuracy (pale) and memorization (dark) of {MODELS[DIT]} at the last evaluation, over the group size. "
            f"Valid / copied samples by G: {'; '.join(words)}. Paper: more training samples, less memorization; "
            "samples of the rule itself are copies with chance N / 2^(36−36/G)."
            + ("" if info.groups else " These runs did not count groups (A).")
        )


def shown_sizes(ends: tuple[Endpoint, ...]) -> tuple[int, ...]:
    """The numbers of samples that have a column: those with the most group sizes, then the largest."""
    groups = {n: len({one.group for one in ends if one.n == n}) for n in {one.n for one in ends}}
    return tuple(sorted(sorted(groups, key=lambda n: (-groups[n], -n))[:MOST_SIZES]))
