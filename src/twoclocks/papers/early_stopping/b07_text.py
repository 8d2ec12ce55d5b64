"""Claim B7 on text: the losses part, and copies begin, in proportion to the number of strings (P2 §3.2, App. E)."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.papers.claim import CLAIMS
from twoclocks.papers.early_stopping.b07_images import LinearInSamples, criterion_of
from twoclocks.papers.early_stopping.image_runs import NaturalRun
from twoclocks.papers.early_stopping.text_runs import GAP, GPT, MD4, text_runs
from twoclocks.papers.records import Records


class LinearInTexts(LinearInSamples):
    """One kind of model on text."""

    criterion: ClassVar[str] = criterion_of(GAP) + "; a copy has 64 characters in a row of a training string"
    figures: ClassVar[tuple[str, ...]] = ()
    what: ClassVar[str] = "text"
    preset: ClassVar[str]

    def runs(self, records: Records) -> list[NaturalRun]:
        return text_runs(records, self.preset)


@CLAIMS.register("B7-text")
class LinearInTextsMasked(LinearInTexts):
    """Masked diffusion (MD4), as in P2."""

    title: ClassVar[str] = "τ_mem is proportional to the number of training strings, for MD4"
    paper: ClassVar[str] = "text (text8; here the King James Bible), MD4: τ_mem ∝ P"
    grids: ClassVar[tuple[str, ...]] = ("text-sizes",)
    preset: ClassVar[str] = MD4


@CLAIMS.register("B7-text-gpt")
class LinearInTextsCausal(LinearInTexts):
    """A causal GPT on the same text, which P2 does not train."""

    title: ClassVar[str] = "τ_mem is proportional to the number of training strings, for a causal GPT"
    paper: ClassVar[str] = "not in P2: the same for next-token prediction"
    grids: ClassVar[tuple[str, ...]] = ("text-sizes-gpt",)
    preset: ClassVar[str] = GPT
