"""Exact nearest training neighbour in Hamming distance, by matrix product, in pieces of bounded memory."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

PRODUCTS = 1 << 24  # entries of one product matrix: 64 MiB in float32


def nearest_distance(samples: Tensor, train: Tensor) -> Tensor:
    """Smallest number of differing entries (n,) between each sample (n, *shape) and the training rows (N, *shape)."""
    length = math.prod(train.shape[1:])
    symbols = 1 + int(torch.cat([samples, train]).max())
    left = indicator(samples, symbols)
    most = torch.zeros(len(samples), device=left.device)
    # Matches are counted, not differences: one product for any number of symbols, in pieces of the training set.
    for rows in train.split(max(1, PRODUCTS // max(1, len(samples), length * symbols))):
        most = torch.maximum(most, (left @ indicator(rows, symbols).T).amax(dim=1))
    return length - most.round().long()


def indicator(rows: Tensor, symbols: int) -> Tensor:
    """One-hot rows (n, entries·symbols): their product counts equal entries, exactly in float32 below 2^24."""
    return functional.one_hot(rows.flatten(1).long(), symbols).flatten(1).float()
