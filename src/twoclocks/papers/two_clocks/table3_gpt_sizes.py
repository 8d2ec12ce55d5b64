"""P1 Table 3: sizes of its autoregressive networks."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.figure import FIGURES
from twoclocks.papers.two_clocks.model_table import ModelTable


@FIGURES.register("table3")
class GPTSizes(ModelTable):
    """Sizes of GPT."""

    id: ClassVar[str] = "table3"
    title: ClassVar[str] = "Sizes of the autoregressive networks"
    shows: ClassVar[str] = "Width, depth, heads and number of parameters of each size of GPT."
    family: ClassVar[str] = "p1-gpt-"
