"""P2 Fig. 16: one hidden layer in the lazy (NTK) limit, over the noise and over the number of points."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.early_stopping.kernel_panels import KernelFigure
from twoclocks.papers.early_stopping.kernel_runs import Axis
from twoclocks.papers.figure import FIGURES


@FIGURES.register("p2-fig16")
class LazyLimit(KernelFigure):
    """The lazy limit."""

    id: ClassVar[str] = "p2-fig16"
    title: ClassVar[str] = "One hidden layer in the lazy limit: memorization over noise and size"
    shows: ClassVar[str] = (
        "NTK initialization, width 8,192, d = 64, full batch: τ_mem scales as 1/σ at P = 128 (left) and as P at "
        "σ² = 0.032 (right); insets: training and test loss"
    )
    claims: ClassVar[tuple[str, ...]] = ("B6",)
    grids: ClassVar[tuple[str, ...]] = ("kernel-noise", "kernel-size")
    axes: ClassVar[tuple[tuple[str, Axis, float], ...]] = (("p2-kernel", "noise", -1.0), ("p2-kernel", "size", 1.0))
