"""P1 Fig. 26: learning rate of GPT-mini at G = 6."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.figure import FIGURES
from twoclocks.papers.two_clocks.optimizer_sweep import OptimizerSweep
from twoclocks.papers.two_clocks.runs import GPT


@FIGURES.register("fig26")
class GPTRates(OptimizerSweep):
    """GPT-mini over the learning rate."""

    id: ClassVar[str] = "fig26"
    title: ClassVar[str] = "Learning rate of GPT-mini"
    shows: ClassVar[str] = "rule accuracy, copies and both clocks of GPT-mini at G = 6 for learning rates 1e-5 to 3e-3"
    grids: ClassVar[tuple[str, ...]] = ("gpt-optimizer",)
    preset: ClassVar[str] = GPT
    network: ClassVar[str] = "GPT-mini"
    varied: ClassVar[str] = "training.learning_rate"
    about: ClassVar[str] = "learning rate"
    paper: ClassVar[str] = "1e-4 and 3e-4 learn the rule fast, larger rates do not learn it"
