"""P1 Table 1: sizes of its diffusion networks."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.figure import FIGURES
from twoclocks.papers.two_clocks.model_table import ModelTable


@FIGURES.register("table1")
class DiTSizes(ModelTable):
    """Sizes of DiT."""

    id: ClassVar[str] = "table1"
    title: ClassVar[str] = "Sizes of the diffusion networks"
    shows: ClassVar[str] = "Width, depth, heads and number of parameters of each size of DiT."
    family: ClassVar[str] = "p1-dit-"
