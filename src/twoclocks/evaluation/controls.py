"""Controls: the scores of models that know only local statistics of the training set (n-grams, a tree of pairs).

A model that scores better has learned more than these statistics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import SettingError
from twoclocks.core.lazy import torch
from twoclocks.core.proportion import clopper_pearson
from twoclocks.core.rows import is_member, row_keys
from twoclocks.core.seeds import numpy_stream
from twoclocks.evaluation.verbatim import RunCopies
from twoclocks.rules.base import Rule

if TYPE_CHECKING:
    from torch import Tensor

TAIL = 0.025  # on either side of an interval
EVERY_ORDER = 6  # pieces of up to this many entries plus one: every smaller order is tried
PAIRED = 1 << 12  # largest entries × symbols for which all pairs are counted: a table of 128 MiB
BLOCK = 1 << 11  # training rows whose pairs are counted at once

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Control:
    """How often samples of a model of local statistics obey the rule, and how often they are copies."""

    name: str
    samples: int
    validity: float
    validity_ci: tuple[float, float]  # Clopper–Pearson, 95%
    copies: float
    copies_ci: tuple[float, float]


def ngram_control(rule: Rule, train: Tensor, order: int, samples: int, seed: int) -> Control:
    """Control by an n-gram model: each entry is drawn given its place and the order − 1 entries before it.

    Entries come in raster order, with the probabilities of the training set; order 1 draws them independently.
    """
    rows = training_rows(rule, train, samples)
    if not 1 <= order <= rows.shape[1]:
        raise SettingError("order", order, f"a sample has {rows.shape[1]} entries; use 1 to {rows.shape[1]}")
    drawn = ngram_samples(rows, rule.symbols, order, samples, numpy_stream(seed, "n-gram control", order))
    return judged(f"{order}-gram", rule, rows, drawn)


def pairwise_control(rule: Rule, train: Tensor, samples: int, seed: int) -> Control:
    """Control by a tree of pairs: the tree that explains the training set best (Chow and Liu 1968).

    Every entry depends on one other; the marginals of all pairs along the tree are those of the training set.
    """
    rows = training_rows(rule, train, samples)
    drawn = tree_samples(rows, rule.symbols, samples, numpy_stream(seed, "pairwise control"))
    return judged("pairwise tree", rule, rows, drawn)


def controls_of(
    rule: Rule, train: Tensor, samples: int = 2048, seed: int = 0, copy_run: int | None = None
) -> list[Control]:
    """The controls that fit a rule; which ones follows from the smallest piece that the rule constrains.

    n-grams of all orders that are smaller than that piece (of pieces beyond seven entries: 1, 2, 3 and the largest
    whose contexts the training set can fill), which never see the whole piece. Then, marked in its name, the order
    that does, where the piece is consecutive in raster order: groups and rows are, and so is the lowest layer of a
    grammar; for scattered groups, columns, blocks and higher layers no order sees the piece. Then the tree of
    pairs, unless the sample is too large for it. Images have none: they need other baselines than n-grams of pixels.

    ``copy_run``: for texts, the run that makes a copy (``evaluation.copy_run``), so that baselines are counted as the
    samples of a run are. They have no order of the whole string: it would only repeat training strings.
    """
    if rule.is_image:
        return []
    if rule.is_text:
        return text_controls(rule, train, samples, seed, copy_run)
    pieces = {kind: piece.shape[2] for kind, piece in rule.parts(rule.empty(1)).items()}
    smallest = min(pieces, key=lambda kind: pieces[kind])
    orders = tried_orders(range(1, pieces[smallest]), rule, len(train))
    found = [ngram_control(rule, train, order, samples, seed) for order in orders]
    whole = ngram_control(rule, train, pieces[smallest], samples, seed)
    piece = f"piece of {smallest.replace('_', ' ')}" if "_" in smallest else smallest
    found.append(replace(whole, name=f"{whole.name}, as long as a {piece}"))
    if math.prod(rule.shape) * rule.symbols <= PAIRED:
        found.append(pairwise_control(rule, train, samples, seed))
    return found


def text_controls(rule: Rule, train: Tensor, samples: int, seed: int, copy_run: int | None) -> list[Control]:
    """n-grams of orders 1 to 3, and the largest whose contexts the training texts can fill."""
    copies = RunCopies(train, rule.shape[0] if copy_run is None else copy_run)
    rows = training_rows(rule, train, samples)
    found = []
    for order in tried_orders(range(1, rule.shape[0]), rule, len(train)):
        drawn = ngram_samples(rows, rule.symbols, order, samples, numpy_stream(seed, "n-gram control", order))
        valid = rule.is_valid(torch.from_numpy(drawn))
        found.append(control_of(f"{order}-gram", valid, copies.found(torch.from_numpy(drawn))))
    return found


def tried_orders(orders: range, rule: Rule, n: int) -> list[int]:
    """The orders among 1, 2, … that are tried on n training rows."""
    if len(orders) <= EVERY_ORDER:
        return list(orders)
    # Beyond this order a context has less than one training row on average, and the model only repeats training rows.
    filled = max(order for order in orders if rule.symbols ** (order - 1) <= n)
    return [order for order in orders if order <= 3 or order == filled]


def training_rows(rule: Rule, train: Tensor, samples: int) -> Whole:
    """The training set as (N, entries); refuses an empty one, and fewer than one sample."""
    if samples < 1:
        raise SettingError("samples", samples, "use an integer of at least 1")
    rows: Whole = rule.as_samples(train).cpu().numpy().astype(np.int64).reshape(-1, math.prod(rule.shape))
    if not len(rows):
        raise SettingError("train", [], "give at least one training row")
    return rows


def judged(name: str, rule: Rule, rows: Whole, drawn: Whole) -> Control:
    """The control of the samples (n, entries) that were drawn: how many are valid, how many are copies."""
    valid = rule.is_valid(torch.from_numpy(drawn.reshape(-1, *rule.shape)))
    return control_of(name, valid, torch.from_numpy(is_member(drawn, rows, rule.symbols)))


def control_of(name: str, valid: Tensor, copied: Tensor) -> Control:
    """A control of samples that are valid or not, copies or not (n,), with intervals."""
    n, hits = len(valid), [int(valid.sum()), int(copied.sum())]
    low, high = clopper_pearson(hits, n, TAIL)
    valid_ci, copied_ci = zip(low.tolist(), high.tolist(), strict=True)
    return Control(name, n, hits[0] / n, valid_ci, hits[1] / n, copied_ci)


def ngram_samples(rows: Whole, symbols: int, order: int, samples: int, rng: np.random.Generator) -> Whole:
    """Samples (samples, entries) of the n-gram model of the rows (N, entries).

    Each sample follows a training row and at every entry jumps to another one with the same context. The context of
    the next entry is then that of the row it follows, so there is always a row to jump to: no context is unseen,
    whatever the order, and no table of contexts is needed.
    """
    row = rng.integers(0, len(rows), size=samples)
    drawn = np.empty((samples, rows.shape[1]), dtype=np.int64)
    for entry in range(rows.shape[1]):
        contexts = row_keys(rows[:, max(0, entry - order + 1) : entry], symbols)
        row = jump(np.unique(contexts, return_inverse=True)[1], row, rng)
        drawn[:, entry] = rows[row, entry]
    return drawn


def tree_samples(rows: Whole, symbols: int, samples: int, rng: np.random.Generator) -> Whole:
    """Samples (samples, entries) of the tree of pairs of the rows (N, entries), from its root to its leaves."""
    order, parents = chow_liu_tree(rows, symbols)
    followed = np.empty((rows.shape[1], samples), dtype=np.int64)  # the row that each entry is of
    followed[order[0]] = rng.integers(0, len(rows), size=samples)
    for entry in order[1:]:
        parent = parents[entry]
        followed[entry] = jump(rows[:, parent], followed[parent], rng)
    return rows[followed.T, np.arange(rows.shape[1])]


def jump(keys: Whole, row: Whole, rng: np.random.Generator) -> Whole:
    """A new row for each followed row, uniform among all rows with the same key (N,), itself included."""
    order = np.argsort(keys, kind="stable")
    ordered, wanted = keys[order], keys[row]
    first, end = (np.searchsorted(ordered, wanted, side=side) for side in ("left", "right"))
    return order[rng.integers(first, end)]


def chow_liu_tree(rows: Whole, symbols: int) -> tuple[Whole, Whole]:
    """The spanning tree of entries with the largest mutual information: entries from the root on, and their parents.

    The root is entry 0; its parent is negative.
    """
    from scipy.sparse.csgraph import (  # slow to import, and tables of clocks need none of it
        breadth_first_order,
        minimum_spanning_tree,
    )

    information = mutual_information(rows, symbols)
    # No edge has weight zero, which would mean that there is none: independent entries are joined too.
    weights = 1 + information.max() - information
    np.fill_diagonal(weights, 0)
    order, parents = breadth_first_order(minimum_spanning_tree(weights), 0, directed=False)
    return order, parents


def mutual_information(rows: Whole, symbols: int) -> npt.NDArray[np.float64]:
    """Mutual information of every two entries in nats, from observed frequencies: (entries, entries)."""
    n, entries = rows.shape
    if entries * symbols > PAIRED:
        fix = f"use a rule with at most {PAIRED:,} entries × symbols, or n-grams"
        raise SettingError("rule", f"{entries} entries of {symbols} symbols", fix)
    pairs = np.zeros((entries * symbols, entries * symbols))
    for start in range(0, n, BLOCK):
        ones = (rows[start : start + BLOCK, :, None] == np.arange(symbols)).reshape(-1, entries * symbols).astype(float)
        pairs += ones.T @ ones
    singles = np.diag(pairs)
    ratio = np.divide(pairs * n, np.outer(singles, singles), out=np.ones_like(pairs), where=pairs > 0)
    terms = pairs / n * np.log(ratio)
    return np.asarray(terms.reshape(entries, symbols, entries, symbols).sum(axis=(1, 3)))
