"""Extractability: does the model continue the first tokens of a text as the text does? (Carlini et al. 2021)

At every evaluation, the first tokens of training texts and of held-out texts are given to the model. A continuation
counts if it is verbatim for ``evaluation.copy_run`` tokens, or to the end of the text. Held-out texts are the chance
level: a model may guess a common phrase.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from twoclocks.core.counts import hits_key, trials_key
from twoclocks.evaluation.metric import Column
from twoclocks.objectives.base import Network, sample
from twoclocks.runs.columns import EXTRACTED
from twoclocks.runs.settings import RunSettings


@dataclass(frozen=True)
class Extraction:
    """Prompts of a run, the same at every evaluation: texts by split, and the noise of their continuations."""

    settings: RunSettings
    texts: dict[str, Tensor]  # (n, length) each
    noise: Tensor

    @property
    def needed(self) -> int:
        """How many tokens must be continued verbatim."""
        evaluation = self.settings.evaluation
        return min(evaluation.copy_run, self.settings.rule.shape[0] - evaluation.prefix)

    def columns(self) -> list[Column]:
        """What the columns mean."""
        prefix = self.settings.evaluation.prefix
        words = {"train": "training", "held_out": "held-out"}
        return [
            Column(
                name=name,
                about=f"{words[split]} texts continued verbatim for {self.needed} tokens after their first {prefix}",
                direction="higher is copying" if split == "train" else "neither",
            )
            for split, name in EXTRACTED.items()
            if split in self.texts
        ]

    def row(self, network: Network) -> dict[str, int]:
        """How many texts of each split are continued verbatim, and of how many."""
        found: dict[str, int] = {}
        prefix = self.settings.evaluation.prefix
        for split, texts in self.texts.items():
            prompts = texts[:, :prefix]
            continued = sample(self.settings.objective, network, self.noise[: len(texts)], prompts=prompts)
            hits = verbatim_tokens(texts, continued, prefix) >= self.needed
            found |= {hits_key(EXTRACTED[split]): int(hits.sum()), trials_key(EXTRACTED[split]): len(texts)}
        return found


def verbatim_tokens(texts: Tensor, continued: Tensor, prefix: int) -> Tensor:
    """How many tokens (n,) after a prefix are those of the texts (n, length), up to the first that is not.

    >>> import torch
    >>> verbatim_tokens(torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 2, 3, 0]]), prefix=1)
    tensor([2])
    """
    return (texts[:, prefix:] == continued[:, prefix:]).long().cumprod(dim=1).sum(dim=1)
