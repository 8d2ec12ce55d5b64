"""P2 Fig. 1, on real digits: losses, copies and quality over training for several N, and when they turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.clocks.onset import Onset
from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light
from twoclocks.evaluation import SampleMemorization
from twoclocks.evaluation.quality.metrics import FRECHET
from twoclocks.papers.drawing import GROUND, log_steps, new_figure
from twoclocks.papers.early_stopping.image_runs import ImageRun, image_runs
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.report.drawings.parts import SMALL
from twoclocks.runs.columns import LOSS_HELD_OUT, LOSS_TRAIN, STEP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHADES = (0.35, 0.55, 0.75, 1.0)  # opacity by N, the smallest first


@dataclass(frozen=True)
class ImageCurves:
    """The curves of one run, from its first step on, and its clocks."""

    n: int
    steps: Floats
    train: Floats
    held_out: Floats
    copies: Floats
    quality: Floats
    gap: Onset | None
    memory: Onset


@dataclass(frozen=True)
class ImagesInfo:
    """The data of the figure: all runs in order of N."""

    runs: tuple[ImageCurves, ...]
    seeds: str

    @property
    def sizes(self) -> list[int]:
        return sorted({one.n for one in self.runs})


def curves_of(one: ImageRun) -> ImageCurves:
    columns = one.curves
    some = columns[STEP] > 0
    return ImageCurves(
        n=one.n,
        steps=columns[STEP][some],
        train=columns[LOSS_TRAIN][some],
        held_out=columns[LOSS_HELD_OUT][some],
        copies=columns[SampleMemorization.name][some],
        quality=columns[FRECHET][some],
        gap=one.gap,
        memory=one.memory,
    )


@FIGURES.register("p2-fig1")
class ImagesOverTraining(PaperFigure[ImagesInfo]):
    """Four panels: losses, copies, Fréchet distance, and both clocks over N."""

    id: ClassVar[str] = "p2-fig1"
    title: ClassVar[str] = "Memorization and quality of images over training"
    shows: ClassVar[str] = (
        "training and validation loss, copies and FID over training on images, for several P: losses part at "
        "τ_mem ∝ P, where samples are best"
    )
    claims: ClassVar[tuple[str, ...]] = ("B7", "B8")
    grids: ClassVar[tuple[str, ...]] = ("images-sizes",)

    def data(self, records: Records) -> ImagesInfo:
        found = image_runs(records)
        if not found:
            raise MissingRunsError("runs: there is none on digits; make the runs first")
        seeds = Records(one.record for one in found).seeds_at_one_n
        return ImagesInfo(tuple(map(curves_of, found)), seeds.words or "1")

    def draw(self, info: ImagesInfo) -> Figure:
        with new_figure(9.6, 5.8) as figure:
            axes = figure.subplots(2, 2).flat
            for axis, panel in zip(axes, (draw_losses, draw_copies, draw_quality, draw_clocks), strict=True):
                panel(axis, info)
            return figure

    def caption(self, info: ImagesInfo) -> str:
        return (
            f"iDDPM on {', '.join(f'{n:,}' for n in info.sizes)} real digits of 8×8 pixels, one line per run (seeds: "
            f"{info.seeds}), darker for more images. Top left: loss on training images (solid) and held-out ones "
            "(dashed). Top right: samples that are copies (d₁/d₂ < 1/3). Bottom left: Fréchet distance to held-out "
            "images; bars: when losses part (grey) and τ_mem (orange). Bottom right: when losses part by 0.05 and when "
            "copies pass 10% beyond chance; "
            "dotted: proportional to N."
        )


def opacity(info: ImagesInfo, n: int) -> float:
    return SHADES[min(info.sizes.index(n), len(SHADES) - 1)]


def over_steps(axis: Any, name: str) -> None:
    log_steps(axis, "x")
    axis.set(xlabel="training step", ylabel=name)


def draw_losses(axis: Any, info: ImagesInfo) -> None:
    for one in info.runs:
        for values, colour, dash in ((one.train, "memory", "-"), (one.held_out, "new", "--")):
            axis.plot(one.steps, values, dash, color=light(colour), alpha=opacity(info, one.n), linewidth=1.1)
    over_steps(axis, "loss")
    log_steps(axis, "y")


def draw_copies(axis: Any, info: ImagesInfo) -> None:
    named: set[int] = set()
    for one in info.runs:
        label = None if one.n in named else f"N = {one.n:,}"
        named.add(one.n)
        axis.plot(one.steps, one.copies, color=light("memory"), alpha=opacity(info, one.n), linewidth=1.1, label=label)
    over_steps(axis, "fraction of copies")
    axis.set_ylim(-0.02, 1.02)
    axis.legend(loc="upper left", **SMALL, **GROUND)


def draw_quality(axis: Any, info: ImagesInfo) -> None:
    for one in info.runs:
        style: dict[str, Any] = {"color": light("new"), "alpha": opacity(info, one.n), "linewidth": 1.1}
        axis.plot(one.steps, one.quality, **style)
        height = float(np.nanmin(one.quality))
        for onset, colour in ((one.gap, "muted"), (one.memory, "memory")):
            if onset is not None and onset.seen:
                axis.plot([max(onset.lower, one.steps[0]), onset.upper], [height] * 2, color=light(colour))
    over_steps(axis, "Fréchet distance")
    log_steps(axis, "y")


def draw_clocks(axis: Any, info: ImagesInfo) -> None:
    for name, colour, shift in (("losses part", "new", 0.97), ("copies begin", "memory", 1.03)):
        seen = [(one.n, one.gap if colour == "new" else one.memory) for one in info.runs]
        known = [(n, onset) for n, onset in seen if onset is not None and onset.seen]
        for k, (n, onset) in enumerate(known):
            ends = [max(onset.lower, 1.0), onset.upper]
            axis.plot([n * shift] * 2, ends, color=light(colour), linewidth=3, label=name if k == 0 else None)
        if known:
            first, middle = known[0][0], float(np.sqrt(max(known[0][1].lower, 1.0) * known[0][1].upper))
            sizes = np.array([info.sizes[0], info.sizes[-1]], dtype=np.float64)
            axis.plot(sizes, middle * sizes / first, ":", color=light("muted"), linewidth=1)
    axis.set(xlabel="training images N", ylabel="training step", xscale="log", yscale="log")
    log_steps(axis, "y")
    axis.set_xticks(info.sizes, [f"{n:,}" for n in info.sizes])
    axis.minorticks_off()
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="upper left", **SMALL, **GROUND)
