"""Standard errors of mean losses, where a small set is repeated to fill the rows that are measured."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def error_of_mean(losses: Tensor, distinct: int, is_whole: bool = False) -> float:
    """Standard error of the mean of losses (n,) of rows 0, 1, … that begin again after ``distinct`` of them.

    Repeats of a row differ in their noise only: they are not further rows. ``is_whole``: the rows are all there are,
    as a small training set is, so only their noise is uncertain, which shows if rows are repeated.

    >>> error_of_mean(torch.tensor([1.0, 3.0]), 2), error_of_mean(torch.tensor([1.0, 3.0, 1.0, 3.0]), 2)
    (1.0, 1.0)
    >>> error_of_mean(torch.tensor([1.0, 3.0, 1.0, 3.0]), 2, is_whole=True)
    0.0
    """
    index = torch.arange(len(losses), device=losses.device) % distinct
    counts = torch.bincount(index, minlength=distinct).to(losses.dtype)
    means = torch.zeros(distinct, dtype=losses.dtype, device=losses.device).index_add_(0, index, losses) / counts
    if is_whole and len(losses) > distinct:
        within = (losses - means[index]).square().sum() / (len(losses) - distinct)
        return math.sqrt(float(within) / len(losses))
    return float(means.std() / math.sqrt(distinct)) if distinct > 1 else math.inf


def error_of_gap(train: Tensor, held_out: Tensor, distinct: tuple[int, int], is_whole: bool) -> float:
    """Standard error of held-out minus training loss: in pairs that share their noise, where no row is repeated."""
    if distinct == (len(train), len(held_out)):
        return error_of_mean(held_out - train, len(train))
    return math.hypot(error_of_mean(train, distinct[0], is_whole), error_of_mean(held_out, distinct[1]))
