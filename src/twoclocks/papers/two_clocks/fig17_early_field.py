"""P1 Fig. 17: the score field around a training sample, up to just after τ_rule."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.figure import FIGURES
from twoclocks.papers.two_clocks.dissected import Phase
from twoclocks.papers.two_clocks.field_figure import FieldFigure


@FIGURES.register("fig17")
class EarlyField(FieldFigure):
    """Checkpoints up to just after τ_rule."""

    id: ClassVar[str] = "fig17"
    title: ClassVar[str] = "Score field around a training sample, up to just after τ_rule"
    shows: ClassVar[str] = (
        "score, and pull towards a training sample or an unseen one, at four σ, up to just after τ_rule"
    )
    phase: ClassVar[Phase] = "early"
    paper: ClassVar[str] = (
        "before the rule is learned the corners of the cube become attractors; then a and b begin to dominate c and d"
    )
