"""How often strings of a random grammar use each of its productions: counted, and in mean and covariance exactly.

Productions are numbered layer by layer from the leaves up, in each by symbol and then by synonym.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twoclocks.core.arrays import Floats
from twoclocks.core.lazy import torch
from twoclocks.rules.rhm import RandomHierarchy

if TYPE_CHECKING:
    from torch import Tensor


def productions_of(rule: RandomHierarchy) -> int:
    """How many productions a grammar has in all."""
    return rule.depth * rule.vocabulary * rule.synonyms


def nodes_used(rule: RandomHierarchy, x: Tensor) -> Tensor:
    """The number of the production at each node of strings x (n, entries): (n, nodes); −1 where there is none."""
    width = rule.vocabulary * rule.synonyms
    levels = enumerate(rule.productions_used(x))
    return torch.cat([torch.where(used >= 0, used + level * width, -1) for level, used in levels], dim=1)


def usage_counts(rule: RandomHierarchy, used: Tensor) -> Tensor:
    """How often each string uses each production, from the numbers at its nodes: float32 (n, productions)."""
    nowhere = productions_of(rule)  # a column for nodes without a production, dropped at the end
    counts = torch.zeros(len(used), nowhere + 1, device=used.device)
    places = torch.where(used >= 0, used, nowhere).long()
    return counts.scatter_add_(1, places, torch.ones_like(places, dtype=counts.dtype))[:, :nowhere]


def usage_moments(rule: RandomHierarchy) -> tuple[Floats, Floats]:
    """Mean (productions,) and covariance (productions, productions) of the counts of one uniform string.

    A derivation reveals the root and then a production at every node, each time changing what is expected of the counts
    by something of mean zero. Such changes are uncorrelated, so their covariances add up, node by node.
    """
    v, m, s = rule.vocabulary, rule.synonyms, rule.branching
    width, size = v * m, productions_of(rule)
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
