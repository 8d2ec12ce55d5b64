"""Exact nearest training neighbour in Hamming distance, by matrix product, in pieces of bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

PRODUCTS = 1 << 24  # entries of one product matrix: 64 MiB in float32


def nearest_distance(samples: Tensor, train: Tensor) -> Tensor:
    """Smallest number of differing entries (n,) between each sample (n, *shape) and the training rows (N, *shape)."""
    length = samples[0].numel() if len(samples) else 0
    symbols = int(max(samples.max(), train.max())) + 1 if len(samples) else 1
    left, right = indicator(samples, symbols), indicator(train, symbols)
    found = []
    for part in left.split(max(1, PRODUCTS // max(1, len(right)))):
        found.append(length - (part @ right.T).amax(dim=1).round().long())  # matches are counted, not differences
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64)


def indicator(rows: Tensor, symbols: int) -> Tensor:
    """One-hot rows (n, entries·symbols): their product counts equal entries, exactly in float32 below 2^24."""
    return functional.one_hot(rows.reshape(len(rows), -1).long(), symbols).flatten(1).float()
