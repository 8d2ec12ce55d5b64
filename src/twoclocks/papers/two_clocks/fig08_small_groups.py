"""P1 Fig. 8: learning curves of DiT-mini by N for small groups."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.figure import FIGURES
from twoclocks.papers.two_clocks.by_size import BySize


@FIGURES.register("fig8")
class EasyGroups(BySize):
    """Small groups."""

    id: ClassVar[str] = "fig8"
    title: ClassVar[str] = "Learning curves by number of training samples, small groups"
    shows: ClassVar[str] = (
        "DiT-mini, G = 2, 3, 4, 6, one row each. Left: sample accuracy by N; middle: memorization over steps; right: "
        "the same over steps·batch/N; dashed: memorization expected by chance. The printed caption is cut there."
    )
    groups: ClassVar[tuple[int, ...]] = (2, 3, 4, 6)
