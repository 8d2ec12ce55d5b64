"""P2 Fig. 19: training losses of one hidden layer with Adam and with gradient descent, over steps / P."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from twoclocks.core.theme import light
from twoclocks.papers.drawing import BY_SIZE, GROUND, colour_legend, colours_of, log_steps, name_panel, new_figure
from twoclocks.papers.early_stopping.b06_optimizers import NAMES
from twoclocks.papers.early_stopping.kernel_panels import LossCurve, loss_curve
from twoclocks.papers.early_stopping.kernel_runs import AxisRuns
from twoclocks.papers.early_stopping.optimizer_runs import small_rate_runs, stable_rate_runs
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.report.drawings.parts import SMALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = {"sgd": "-", "adam": "--"}


@dataclass(frozen=True)
class OptimizerPanel:
    """One panel: the curves of both optimizers at one kind of rates."""

    title: str
    curves: dict[str, tuple[LossCurve, ...]]  # by optimizer, all seeds; ``place`` is P
    words: str


@dataclass(frozen=True)
class OptimizersInfo:
    """The data of the figure."""

    panels: tuple[OptimizerPanel, ...]


@FIGURES.register("p2-fig19")
class KernelOptimizers(PaperFigure[OptimizersInfo]):
    """Two panels: at the largest stable rates, as in P2, and at small ones."""

    id: ClassVar[str] = "p2-fig19"
    title: ClassVar[str] = "One hidden layer: Adam and gradient descent"
    shows: ClassVar[str] = (
        "training loss of Adam and SGD at their largest stable rates for several P: plotted against τ/P, the curves of "
        "one optimizer start to decay at the same point; the optimizers differ by a shift"
    )
    claims: ClassVar[tuple[str, ...]] = ("B6",)
    grids: ClassVar[tuple[str, ...]] = ("kernel-stable", "kernel-size", "kernel-adam")

    def data(self, records: Records) -> OptimizersInfo:
        chosen = {"largest stable rates": stable_rate_runs, "small rates": small_rate_runs}
        panels = []
        for title, choose in chosen.items():
            runs = {optimizer: choose(records, optimizer) for optimizer in LINES}
            if any(one.records for one in runs.values()):
                panels.append(optimizer_panel(title, runs))
        if not panels:
            raise MissingRunsError("runs: there is none of one hidden layer; make the runs first")
        return OptimizersInfo(tuple(panels))

    def draw(self, info: OptimizersInfo) -> Figure:
        with new_figure(4.8 * len(info.panels), 3.6) as figure:
            axes = figure.subplots(1, len(info.panels), squeeze=False)[0]
            for k, panel in enumerate(info.panels):
                draw_panel(axes[k], panel)
                name_panel(axes[k], "AB"[k], panel.title)
            return figure

    def caption(self, info: OptimizersInfo) -> str:
        said = "; ".join(f"{one.title}: {one.words}" for one in info.panels)
        return (
            "Training loss of one hidden layer in the NTK limit over steps / P, all seeds. Lines: gradient descent, "
            f"dashes: Adam. {said}. P2 reads: curves of one optimizer fall together, so τ_mem ∝ P for both."
        )


def optimizer_panel(title: str, runs: dict[str, AxisRuns]) -> OptimizerPanel:
    curves = {
        name: tuple(loss_curve(x, one) for x, one in zip(found.places, found.records, strict=True))
        for name, found in runs.items()
    }
    words = ", ".join(f"{NAMES[name]} P^{found.power()}" for name, found in runs.items() if found.power() is not None)
    return OptimizerPanel(title, curves, words or "too few P for a power")


def draw_panel(axis: Any, panel: OptimizerPanel) -> None:
    colours = colours_of([int(one.place) for found in panel.curves.values() for one in found], BY_SIZE)
    for name, found in panel.curves.items():
        for one in found:
            axis.plot(one.steps / one.place, one.train, LINES[name], color=colours[int(one.place)], linewidth=1)
        axis.plot([], [], LINES[name], color=light("muted"), label=NAMES[name])
    log_steps(axis, "x")
    axis.set(xlabel="training step / P", ylabel="training loss")
    first = axis.legend(loc="upper right", **SMALL, **GROUND)
    colour_legend(axis, colours, "P", loc="lower left")
    axis.add_artist(first)
