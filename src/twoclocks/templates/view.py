"""A view of your own: how many different samples a model generates, at every evaluation of a run.

Save this file, change it, and use it:

    twoclocks list templates view > my_view.py
    twoclocks list views --import my_view.py
    twoclocks dissect runs/demo --import my_view.py --views distinct
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.core.theme import light
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.dissection.view import VIEWS, Arrays, Info, Probe, View
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing, Figure
from twoclocks.report.drawings.parts import figure_of, mark_clocks, step_axis


@dataclass(frozen=True)
class DistinctInfo(Info):
    """The result: plain arrays and numbers, from which sentences and figures are made."""

    share: Floats  # (steps,): different samples per sample

    def sentences(self) -> list[str]:
        """The findings, as the command prints them."""
        first, last = self.share[0], self.share[-1]
        at = f"{last:.1%} of the samples at step {self.steps[-1]:,} are different from each other"
        return [f"{at}; {first:.1%} at the first evaluation."]

    def numbers(self) -> dict[str, Any]:
        """The same for programs: what ``--json`` prints."""
        return {"distinct": self.share.tolist()}


@VIEWS.register("distinct")  # the name on the command line: --views distinct
@dataclass(frozen=True, kw_only=True)
class Distinct(View):
    """Different samples per sample, over training."""

    reads: ClassVar[Reads] = "samples"  # what it needs of every step: "samples" or "weights"
    most: int = setting(512, "samples that are compared", at_least=2)

    def prepare(self, subject: Subject) -> Probe:
        """Whatever is needed besides the model itself, computed once for all steps."""
        return DistinctProbe(subject, self.most)

    def info(self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]) -> Info:
        """The result of all measurements, which are stacked along axis 0."""
        return DistinctInfo(np.array(steps, dtype=np.int64), subject.clocks, measurements["share"][:, 0])


@dataclass(frozen=True)
class DistinctProbe(Probe):
    subject: Subject
    most: int

    def measure(self, step: int) -> Arrays:
        """Arrays for one step; they are cached in the run directory, by the content of what was read."""
        decoded, _ = self.subject.judged(step)
        rows = decoded.symbols[: self.most].flatten(1)
        return {"share": np.array([len(torch.unique(rows, dim=0)) / len(rows)])}


@DRAWINGS.register("distinct")  # the same name as that of the view; without a drawing the page shows the sentences only
class DistinctDrawing(Drawing):
    """The figure of the view on the page."""

    title = "Different samples"  # heading of the section

    def draw(self, info: DistinctInfo) -> Figure:
        """A matplotlib figure of what the Info holds; computes nothing."""
        figure = figure_of(7.2, 2.6)  # inches
        axis = figure.subplots()
        axis.plot(info.steps, info.share, color=light("ink"))
        step_axis(axis, info.steps)
        mark_clocks(axis, info.clocks)
        axis.set_ylabel("different samples per sample")
        return figure


# In a test of yours:
#     import twoclocks as tc
#     from twoclocks.testing import check_view
#     check_view(Distinct(), tc.load_run("runs/demo"))
