"""A noise level as a few numbers of order one, for networks that restore tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from twoclocks.models.base import distinct_labels

FREQUENCIES = (0.125, 0.25, 0.5, 1.0)
FEATURES = 1 + 2 * len(FREQUENCIES)
FARTHEST = 12.0  # log-odds beyond which levels are the same


def noise_features(noise: Tensor) -> Tensor:
    """The probability that a token was replaced (n,), and waves of its log-odds: (n, FEATURES), or (1, FEATURES).

    Log-odds tell the first levels apart, at which one token in thousands is replaced.
    """
    noise = distinct_labels(noise)
    odds = torch.logit(noise.double(), eps=1e-9).clamp(-FARTHEST, FARTHEST).float()
    waves = torch.stack([odds * frequency for frequency in FREQUENCIES], dim=1)
    return torch.cat([noise[:, None].float(), waves.sin(), waves.cos()], dim=1)
