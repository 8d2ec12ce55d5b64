"""Extractability: does the model continue the first tokens of a text as the text does? (Carlini et al. 2021)

At every evaluation, the first tokens of training texts and of held-out texts are given to the model. A continuation
counts if it is verbatim for ``evaluation.copy_run`` tokens, or to the end of the text. Held-out texts are the chance
level: a model may guess a common phrase.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from torch import Tensor

from twoclocks.core.counts import hits_key, trials_key
from twoclocks.evaluation.metric import Column
from twoclocks.objectives.base import Network, sample
from twoclocks.runs.columns import EXTRACTED
from twoclocks.runs.settings import RunSettings
from twoclocks.training.capture import Replayed


@dataclass(frozen=True)
class Extraction:
    """Prompts of a run, the same at every evaluation: texts by split, and the noise of their continuations."""

    settings: RunSettings
    texts: dict[str, Tensor]  # (n, length) each
    noise: Tensor
    # By network and split, what continues the prompts; on a GPU a graph, since hundreds of small kernels take longer.
    samplers: dict[tuple[Network, str], Replayed[Tensor]] = field(default_factory=dict)

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
            hits = verbatim_tokens(texts, self.continued(network, split), prefix) >= self.needed
            found |= {hits_key(EXTRACTED[split]): int(hits.sum()), trials_key(EXTRACTED[split]): len(texts)}
        return found

    def continued(self, network: Network, split: str) -> Tensor:
        """The texts of a split (n, length) as the network continues them from their first tokens."""
        if (network, split) not in self.samplers:
            texts = self.texts[split]
            prompts = texts[:, : self.settings.evaluation.prefix]
            work = partial(sample, self.settings.objective, network, self.noise[: len(texts)], prompts=prompts)
            self.samplers[network, split] = Replayed(work, self.settings.training.captures)
        return self.samplers[network, split]()


def verbatim_tokens(texts: Tensor, continued: Tensor, prefix: int) -> Tensor:
    """How many tokens (n,) after a prefix are those of the texts (n, length), up to the first that is not.

    >>> import torch
    >>> verbatim_tokens(torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 2, 3, 0]]), prefix=1)
    tensor([2])
    """
    return (texts[:, prefix:] == continued[:, prefix:]).long().cumprod(dim=1).sum(dim=1)
