"""Noisy training data: some entries of a sample are those of another sample, drawn anew whenever it is shown.

So no training sample is seen twice in the same form, and a copy of what was shown is seldom a training sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twoclocks.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Noisy:
    """Replace a share of the entries by those of another row of the batch at the same place.

    Each entry keeps its own distribution over the training set, in every encoding: bits stay −1 and +1, one-hot entries
    keep their one.
    """

    share: float
    entries: int  # of a sample; an encoding may give several channels to each

    def __call__(self, clean: Tensor, generator: torch.Generator) -> Tensor:
        """Samples (n, *shape), or with channels in front (n, channels, *shape)."""
        flat = clean.flatten(1).unflatten(1, (-1, self.entries))  # (n, channels, entries)
        other = flat[torch.rand(len(flat), generator=generator, device=flat.device).argsort()]
        chosen = torch.rand(len(flat), 1, self.entries, generator=generator, device=flat.device) < self.share
        return torch.where(chosen, other, flat).reshape(clean.shape)
