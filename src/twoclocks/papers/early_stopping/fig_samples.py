"""Early-stopped samples beside final ones, from the same noises, on real digits (P2 §3.1: example copies)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from twoclocks.dissection.views.examples import ExamplesInfo
from twoclocks.papers.as_printed import stable
from twoclocks.papers.early_stopping.image_runs import DIGITS
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.views import view_of
from twoclocks.report.drawings.examples import draw_images

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class SamplesInfo:
    """What the view shows of one run, and how many images it was trained on."""

    n: int
    examples: ExamplesInfo


@FIGURES.register("p2-samples")
class EarlyAndFinalSamples(PaperFigure[SamplesInfo]):
    """Two rows per step: samples, and their nearest training images."""

    id: ClassVar[str] = "p2-samples"
    title: ClassVar[str] = "Samples of an early stop and of the last step"
    shows: ClassVar[str] = (
        "images generated before τ_mem, which are new, and at the end of training, which are copies, beside their "
        "nearest training images"
    )
    claims: ClassVar[tuple[str, ...]] = ("B8",)
    grids: ClassVar[tuple[str, ...]] = ("images-twins",)

    def data(self, records: Records) -> SamplesInfo:
        for one in stable(records.baseline(DIGITS)):
            found = view_of(one, "examples")
            if isinstance(found, ExamplesInfo):
                return SamplesInfo(one.n, found)
        raise MissingRunsError("runs: there is none on digits with stored samples; make the runs first")

    def draw(self, info: SamplesInfo) -> Figure:
        figure: Figure = draw_images(info.examples)
        return figure

    def caption(self, info: SamplesInfo) -> str:
        return (
            f"iDDPM on {info.n:,} real digits of 8×8 pixels, samples from the same noises and below each its nearest "
            f"training image; an orange frame marks a copy (d₁/d₂ < 1/3). {' '.join(info.examples.sentences())}"
        )
