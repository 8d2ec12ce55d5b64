"""P1 Fig. 20: the two clocks of GPT over rule, data and network."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.clock_panels import ClockPanels, clock_caption, clock_panels, draw_clock_panels
from twoclocks.papers.two_clocks.runs import GPT

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@FIGURES.register("fig20")
class TwoClocksOfGPT(PaperFigure[ClockPanels]):
    """The two clocks of GPT."""

    id: ClassVar[str] = "fig20"
    title: ClassVar[str] = "The two clocks of autoregressive networks"
    shows: ClassVar[str] = "The same panels as Fig. 2, for GPT in place of DiT. The paper prints no caption of its own."
    claims: ClassVar[tuple[str, ...]] = ("A2", "A4", "A5", "A6", "A7", "A8", "A10")
    grids: ClassVar[tuple[str, ...]] = ("gpt-law", "gpt-groups", "network-sizes")

    def data(self, records: Records) -> ClockPanels:
        return clock_panels(records, GPT)

    def draw(self, info: ClockPanels) -> Figure:
        return draw_clock_panels(info)

    def caption(self, info: ClockPanels) -> str:
        return clock_caption(info)
