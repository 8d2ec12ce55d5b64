"""P1 Fig. 24: learning rate of DiT-mini at G = 6."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.figure import FIGURES
from twoclocks.papers.two_clocks.optimizer_sweep import OptimizerSweep
from twoclocks.papers.two_clocks.runs import DIT


@FIGURES.register("fig24")
class DiTRates(OptimizerSweep):
    """DiT-mini over the learning rate."""

    id: ClassVar[str] = "fig24"
    title: ClassVar[str] = "Learning rate of DiT-mini"
    shows: ClassVar[str] = "rule accuracy, copies and both clocks of DiT-mini at G = 6 for learning rates 1e-5 to 3e-3"
    grids: ClassVar[tuple[str, ...]] = ("dit-optimizer",)
    preset: ClassVar[str] = DIT
    network: ClassVar[str] = "DiT-mini"
    varied: ClassVar[str] = "training.learning_rate"
    about: ClassVar[str] = "learning rate"
    paper: ClassVar[str] = "1e-4 learns the rule first, then 3e-5 and 1e-5; larger rates do not learn it"
