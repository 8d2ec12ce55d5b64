"""P1 Fig. 18: the score field around a training sample, between the clocks."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.figure import FIGURES
from twoclocks.papers.two_clocks.dissected import Phase
from twoclocks.papers.two_clocks.field_figure import FieldFigure


@FIGURES.register("fig18")
class MiddleField(FieldFigure):
    """Checkpoints between the clocks."""

    id: ClassVar[str] = "fig18"
    title: ClassVar[str] = "Score field around a training sample, between the clocks"
    shows: ClassVar[str] = "score, and pull towards a training sample or an unseen one, at four σ, between the clocks"
    phase: ClassVar[Phase] = "middle"
    paper: ClassVar[str] = (
        "the border between a and b stays visible while the attraction of a grows, most at intermediate σ"
    )
