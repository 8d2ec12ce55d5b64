"""P1 Fig. 25: weight decay of DiT-mini at G = 6."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.figure import FIGURES
from twoclocks.papers.two_clocks.optimizer_sweep import OptimizerSweep
from twoclocks.papers.two_clocks.runs import DIT


@FIGURES.register("fig25")
class DiTDecays(OptimizerSweep):
    """DiT-mini over the weight decay."""

    id: ClassVar[str] = "fig25"
    title: ClassVar[str] = "Weight decay of DiT-mini"
    shows: ClassVar[str] = "rule accuracy, copies and both clocks of DiT-mini at G = 6 for weight decays up to 1e-2"
    grids: ClassVar[tuple[str, ...]] = ("dit-optimizer",)
    preset: ClassVar[str] = DIT
    network: ClassVar[str] = "DiT-mini"
    varied: ClassVar[str] = "training.weight_decay"
    about: ClassVar[str] = "weight decay"
    paper: ClassVar[str] = "τ_rule stays near 1e5 steps for small decays; with 1e-2 the rule is not learned"
