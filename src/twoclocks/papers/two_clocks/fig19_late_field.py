"""P1 Fig. 19: the score field around a training sample, after τ_mem."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.figure import FIGURES
from twoclocks.papers.two_clocks.dissected import Phase
from twoclocks.papers.two_clocks.field_figure import FieldFigure


@FIGURES.register("fig19")
class LateField(FieldFigure):
    """Checkpoints after τ_mem."""

    id: ClassVar[str] = "fig19"
    title: ClassVar[str] = "Score field around a training sample, after τ_mem"
    shows: ClassVar[str] = "score, and pull towards a training sample or an unseen one, at four σ, after τ_mem"
    phase: ClassVar[Phase] = "late"
    paper: ClassVar[str] = "the basin of the training sample a expands towards b and dominates much of the plane"
