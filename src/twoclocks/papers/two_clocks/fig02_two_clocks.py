"""P1 Fig. 2: the two clocks of DiT over rule, data and network."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.clock_panels import ClockPanels, clock_caption, clock_panels, draw_clock_panels
from twoclocks.papers.two_clocks.runs import DIT

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@FIGURES.register("fig2")
class TwoClocks(PaperFigure[ClockPanels]):
    """The two clocks of DiT."""

    id: ClassVar[str] = "fig2"
    title: ClassVar[str] = "Two clocks, τ_rule and τ_mem, and what moves them"
    shows: ClassVar[str] = (
        "A: schematic. B: one run of DiT-mini (G = 3, N = 4,096). C: both clocks over G for three networks. "
        "D: τ_rule (i) and τ_mem (ii) over N. E, F: accuracy and memorization by G. G: accuracy by N. H: memorization "
        "on steps·batch/N. The printed caption is cut after B; C to H follow the paper's text."
    )
    claims: ClassVar[tuple[str, ...]] = ("A1", "A2", "A4", "A5", "A6", "A7", "A8")
    grids: ClassVar[tuple[str, ...]] = ("calibration-memory", "dit-rule", "dit-groups", "dit-law", "network-sizes")

    def data(self, records: Records) -> ClockPanels:
        return clock_panels(records, DIT)

    def draw(self, info: ClockPanels) -> Figure:
        return draw_clock_panels(info)

    def caption(self, info: ClockPanels) -> str:
        return clock_caption(info)
