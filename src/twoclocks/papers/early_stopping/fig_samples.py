"""Early-stopped samples beside final ones, from the same noises: real digits and texts (P2 §3.1 and App. E)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from twoclocks.dissection.views.examples import ExamplesInfo
from twoclocks.papers.as_printed import stable
from twoclocks.papers.early_stopping.image_runs import DIGITS
from twoclocks.papers.early_stopping.text_runs import GPT, MD4
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.views import view_of
from twoclocks.report.drawings.examples import draw_images, draw_texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class SamplesInfo:
    """What the view shows of one run, how many samples it was trained on, and its preset."""

    n: int
    examples: ExamplesInfo
    preset: str


def first_examples(records: Records, presets: Sequence[str]) -> SamplesInfo:
    """The samples of the first run of these presets that has the view ``examples``."""
    for preset in presets:
        for one in stable(records.baseline(preset)):
            found = view_of(one, "examples")
            if isinstance(found, ExamplesInfo):
                return SamplesInfo(one.n, found, preset)
    raise MissingRunsError(f"runs: none of {' or '.join(presets)} has stored samples; make the runs first")


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
        return first_examples(records, [DIGITS])

    def draw(self, info: SamplesInfo) -> Figure:
        figure: Figure = draw_images(info.examples)
        return figure

    def caption(self, info: SamplesInfo) -> str:
        return (
            f"iDDPM on {info.n:,} real digits of 8×8 pixels, samples from the same noises and below each its nearest "
            f"training image; an orange frame marks a copy (d₁/d₂ < 1/3). {' '.join(info.examples.sentences())}"
        )


class EarlyAndFinalTexts(PaperFigure[SamplesInfo]):
    """One column per step: texts, and below each its nearest training text."""

    shows: ClassVar[str] = (
        "texts generated before τ_mem and at the end of training, beside their nearest training texts, with what both "
        "have in common marked"
    )
    grids: ClassVar[tuple[str, ...]] = ("text-examples",)
    preset: ClassVar[str]
    network: ClassVar[str]

    def data(self, records: Records) -> SamplesInfo:
        return first_examples(records, [self.preset])

    def draw(self, info: SamplesInfo) -> Figure:
        figure: Figure = draw_texts(info.examples)
        return figure

    def caption(self, info: SamplesInfo) -> str:
        return (
            f"{self.network} on {info.n:,} strings of the King James Bible, texts from the same noises and below each, "
            "in orange, its nearest training text; their longest common run stands between [[ and ]]. "
            f"{' '.join(info.examples.sentences())}"
        )


@FIGURES.register("p2-texts")
class TextsOfMaskedDiffusion(EarlyAndFinalTexts):
    """Masked diffusion, P2's model of text."""

    id: ClassVar[str] = "p2-texts"
    title: ClassVar[str] = "Texts of an early stop and of the last step, masked diffusion"
    claims: ClassVar[tuple[str, ...]] = ("B7",)
    preset: ClassVar[str] = MD4
    network: ClassVar[str] = "Masked diffusion (MD4)"


@FIGURES.register("p2-texts-gpt")
class TextsOfGpt(EarlyAndFinalTexts):
    """Next-token prediction on the same strings, which P2 does not have."""

    id: ClassVar[str] = "p2-texts-gpt"
    title: ClassVar[str] = "Texts of an early stop and of the last step, next-token prediction"
    claims: ClassVar[tuple[str, ...]] = ("B7",)
    preset: ClassVar[str] = GPT
    network: ClassVar[str] = "A causal GPT"
