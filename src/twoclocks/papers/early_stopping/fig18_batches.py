"""P2 Fig. 18: one hidden layer over the batch, in both limits."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.early_stopping.kernel_panels import KernelFigure
from twoclocks.papers.early_stopping.kernel_runs import Axis
from twoclocks.papers.figure import FIGURES


@FIGURES.register("p2-fig18")
class Batches(KernelFigure):
    """Both limits."""

    id: ClassVar[str] = "p2-fig18"
    title: ClassVar[str] = "One hidden layer: memorization over the batch"
    shows: ClassVar[str] = "the batch does not affect τ_mem, with NTK (left) and mean-field initialization (right)"
    claims: ClassVar[tuple[str, ...]] = ("B6",)
    grids: ClassVar[tuple[str, ...]] = ("kernel-batch",)
    axes: ClassVar[tuple[tuple[str, Axis, float], ...]] = (
        ("p2-kernel", "batch", 0.0),
        ("p2-kernel-mean-field", "batch", 0.0),
    )
