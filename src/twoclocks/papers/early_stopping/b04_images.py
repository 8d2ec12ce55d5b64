"""Claim B4 on images: samples of two models from the same noise agree until τ_mem (P2 §3.1, Fig. 2)."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.as_printed import stable
from twoclocks.papers.claim import CLAIMS
from twoclocks.papers.early_stopping.b04_twins import Measure, TwinsAgree
from twoclocks.papers.early_stopping.image_runs import DIGITS, GAP, TWIN_SIZE
from twoclocks.papers.records import Records


@CLAIMS.register("B4-images")
class ImagesAgreeUntilMemory(TwinsAgree):
    """Twins on real digits, 256 each."""

    title: ClassVar[str] = "Images of two models on disjoint data agree until τ_mem"
    paper: ClassVar[str] = "CelebA (here: digits): whitened images from the same noise have a high cosine until τ_mem"
    criterion: ClassVar[str] = (
        "the whitened images of the two models from the same noise come nearer than half of the distance by chance "
        "(1 − cosine), and part, with 95% confidence, not before τ_mem as P2 reads it: in both runs the held-out "
        "loss, which begins at 1, exceeds the training loss by 0.05 (the clock of copies is told beside it)"
    )
    grids: ClassVar[tuple[str, ...]] = ("images-twins",)
    measure: ClassVar[Measure] = "samples"
    gap: ClassVar[float] = GAP
    what: ClassVar[str] = "real digits"

    def first_runs(self, records: Records) -> Records:
        sizes = records.scale.copied_sizes((TWIN_SIZE,))
        return stable(records.baseline(DIGITS, ("data.part",), data__n=sizes, data__part=0))
