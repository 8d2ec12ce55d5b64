"""How often strings of a random grammar use each production: counts, and their exact mean and covariance.

Productions are numbered layer by layer from the leaves up; within a layer by symbol, then by synonym.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twoclocks.core.arrays import Floats
from twoclocks.core.lazy import torch
from twoclocks.rules.rhm import RandomHierarchy

if TYPE_CHECKING:
    from torch import Tensor


def production_count(rule: RandomHierarchy) -> int:
    """Number of productions of a grammar, over all layers."""
    return rule.depth * rule.vocabulary * rule.synonyms


def nodes_used(rule: RandomHierarchy, x: Tensor) -> Tensor:
    """Index of the production at each node of strings x (n, entries): (n, nodes); −1 where there is none."""
    width = rule.vocabulary * rule.synonyms
    levels = enumerate(rule.productions_used(x))
    return torch.cat([torch.where(used >= 0, used + level * width, -1) for level, used in levels], dim=1)


def usage_counts(rule: RandomHierarchy, used: Tensor) -> Tensor:
    """How often each string uses each production, from the indices at its nodes: float32 (n, productions)."""
    none = production_count(rule)  # an extra column for nodes without a production, dropped at the end
    counts = torch.zeros(len(used), none + 1, device=used.device)
    columns = torch.where(used >= 0, used, none).long()
    return counts.scatter_add_(1, columns, torch.ones_like(columns, dtype=counts.dtype))[:, :none]


def usage_moments(rule: RandomHierarchy) -> tuple[Floats, Floats]:
    """Mean (productions,) and covariance (productions, productions) of the counts of one uniform string.

    A derivation draws the root and then a production at every node. Each draw changes the expected counts by a random
    vector of mean zero (a martingale difference). Such changes are uncorrelated, so their covariances add up.
    """
    v, m, s = rule.vocabulary, rule.synonyms, rule.branching
    width, size = v * m, production_count(rule)
    tables = [table.numpy() for table in rule.productions]
    below, expected = np.zeros((v, size)), []  # below a symbol; and by each of its productions (v, m, size)
    for level, table in enumerate(tables):
        by = below[table].sum(axis=2)
        by.reshape(width, size)[np.arange(width), level * width + np.arange(width)] += 1
        expected.append(by)
        below = by.mean(axis=1)
    nodes = np.full(v, 1 / v)  # expected number of nodes with each symbol, from the root down
    change = below - below.mean(axis=0)
    covariance = change.T @ change / v
    for table, by in zip(reversed(tables), reversed(expected), strict=True):
        change = (by - by.mean(axis=1, keepdims=True)).reshape(width, size)
        covariance += change.T @ (change * np.repeat(nodes / m, m)[:, None])
        nodes = np.bincount(table.ravel(), weights=np.repeat(nodes / m, m * s), minlength=v)
    return below.mean(axis=0), covariance
