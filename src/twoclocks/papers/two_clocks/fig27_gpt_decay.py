"""P1 Fig. 27: weight decay of GPT-mini at G = 6."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.figure import FIGURES
from twoclocks.papers.two_clocks.optimizer_sweep import OptimizerSweep
from twoclocks.papers.two_clocks.runs import GPT


@FIGURES.register("fig27")
class GPTDecays(OptimizerSweep):
    """GPT-mini over the weight decay."""

    id: ClassVar[str] = "fig27"
    title: ClassVar[str] = "Weight decay of GPT-mini"
    shows: ClassVar[str] = "rule accuracy, copies and both clocks of GPT-mini at G = 6 for weight decays from 0 to 1"
    grids: ClassVar[tuple[str, ...]] = ("gpt-optimizer",)
    preset: ClassVar[str] = GPT
    network: ClassVar[str] = "GPT-mini"
    varied: ClassVar[str] = "training.weight_decay"
    about: ClassVar[str] = "weight decay"
    paper: ClassVar[str] = "the rule is learned for most values; more weight decay delays memory, and widens the window"
