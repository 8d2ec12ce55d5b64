"""P1 Table 4: power laws of τ_mem over N by network and group size, the paper's beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.curves import (
    MODELS,
    LawLine,
    interval_words,
    law_line,
    some_curves,
)
from twoclocks.papers.two_clocks.panels import draw_table
from twoclocks.papers.two_clocks.printed_fits import PRINTED_FITS, PrintedFit

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class FitRow:
    """One line of the table; ``group`` None is all group sizes together."""

    preset: str
    group: int | None
    paper: PrintedFit
    ours: LawLine
    runs: int

    @property
    def cells(self) -> list[str]:
        """The line as text."""
        name = MODELS[self.preset] if self.group is None else ""
        law, told = self.ours.law, self.paper
        paper = [f"{told.a:.1f}", f"{told.alpha:.2f}", f"{told.r_squared:.2f}", str(told.points)]
        if law is None:
            ours = ["", "no law", "", "", str(self.runs)]
        else:
            known = "" if law.r_squared is None else f"{law.r_squared:.2f}"
            ours = [f"{law.a:.3g}", f"{law.alpha:.2f}", interval_words(law), known, str(law.points)]
        return [name, "all" if self.group is None else str(self.group), *paper, *ours]


@dataclass(frozen=True)
class FitsInfo:
    """The data of the table."""

    rows: tuple[FitRow, ...]

    @property
    def agreeing(self) -> list[FitRow]:
        """Lines in which our interval of the exponent holds the paper's value."""
        fitted = [row for row in self.rows if row.ours.law is not None]
        return [row for row in fitted if row.ours.law and within(row.paper.alpha, row.ours.law.alpha_ci)]


def within(value: float, ends: tuple[float, float]) -> bool:
    return ends[0] <= value <= ends[1]


@FIGURES.register("table4")
class Fits(PaperFigure[FitsInfo]):
    """Power laws by network and group size."""

    id: ClassVar[str] = "table4"
    title: ClassVar[str] = "Power laws τ_mem = a·N^α, the paper's beside ours"
    shows: ClassVar[str] = (
        "a, α, R² and number of runs of the fit τ_mem = a·N^α for DiT-mini, GPT-mini and GPT-B, pooled and by G, for a "
        "threshold of chance + 0.1 copies; without intervals. GPT-B has two N only, so its lines fit by construction."
    )
    claims: ClassVar[tuple[str, ...]] = ("A6", "A7")
    grids: ClassVar[tuple[str, ...]] = (
        *("calibration-memory", "gpt-law", "gpt-groups", "dit-groups", "dit-groups-small", "dit-law", "network-sizes"),
    )

    def data(self, records: Records) -> FitsInfo:
        runs = some_curves(records, *PRINTED_FITS, clock="memory")
        rows = []
        for preset, fits in PRINTED_FITS.items():
            for group, paper in fits.items():
                own = [one for one in runs if one.preset == preset and group in (None, one.group)]
                rows.append(FitRow(preset, group, paper, law_line(str(group), own), len(own)))
        return FitsInfo(tuple(rows))

    def draw(self, info: FitsInfo) -> Figure:
        head = ["network", "G", "a\npaper", "α\npaper", "R²\npaper", "runs\npaper"]
        head += ["a\nours", "α\nours", "95% of α\nours", "R²\nours", "runs\nours"]
        widths = [1.2, 0.5, 0.75, 0.75, 0.75, 0.75, 0.8, 0.8, 1.5, 0.75, 0.75]
        return draw_table(head, [row.cells for row in info.rows], 8.6, widths)

    def caption(self, info: FitsInfo) -> str:
        fitted = [row for row in info.rows if row.ours.law is not None]
        pooled = [f"{MODELS[row.preset]} {row.ours.words}" for row in fitted if row.group is None]
        ours = f"; pooled: {'; '.join(pooled)}" if pooled else ""
        return (
            "Power laws of τ_mem over N. Ours are maximum-likelihood fits to intervals between evaluations, with "
            f"censored runs, and need four N at which copying was seen. {len(fitted)} of {len(info.rows)} lines have "
            f"enough runs{ours}. In {len(info.agreeing)} of them the 95% interval of α holds the paper's value, which "
            "has no interval itself."
        )
