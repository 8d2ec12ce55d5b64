"""P1 Fig. 9: learning curves of DiT-mini by N for large groups."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.figure import FIGURES
from twoclocks.papers.two_clocks.by_size import BySize


@FIGURES.register("fig9")
class HardGroups(BySize):
    """Large groups."""

    id: ClassVar[str] = "fig9"
    title: ClassVar[str] = "Learning curves by number of training samples, large groups"
    shows: ClassVar[str] = "The same as Fig. 8 for G = 9, 12, 18, 36, which DiT-mini does not learn by rule."
    groups: ClassVar[tuple[int, ...]] = (9, 12, 18, 36)
