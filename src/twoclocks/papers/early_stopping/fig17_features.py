"""P2 Fig. 17: the same as Fig. 16 in the mean-field limit, in which features are learned."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.early_stopping.kernel_panels import KernelFigure
from twoclocks.papers.early_stopping.kernel_runs import Axis
from twoclocks.papers.figure import FIGURES


@FIGURES.register("p2-fig17")
class MeanFieldLimit(KernelFigure):
    """The mean-field limit."""

    id: ClassVar[str] = "p2-fig17"
    title: ClassVar[str] = "One hidden layer in the mean-field limit: memorization over noise and size"
    shows: ClassVar[str] = (
        "mean-field initialization, otherwise as Fig. 16: τ_mem is compatible with 1/σ at P = 128 (left) and with P at "
        "σ² = 0.032 (right)"
    )
    claims: ClassVar[tuple[str, ...]] = ("B6",)
    grids: ClassVar[tuple[str, ...]] = ("kernel-noise", "kernel-size")
    axes: ClassVar[tuple[tuple[str, Axis, float], ...]] = (
        ("p2-kernel-mean-field", "noise", -1.0),
        ("p2-kernel-mean-field", "size", 1.0),
    )
