"""Controls against their whole distributions, enumerated, and against rules that local statistics cannot see."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from twoclocks.core.errors import SettingError
from twoclocks.core.seeds import numpy_stream
from twoclocks.data import training_set
from twoclocks.evaluation import Control, controls, controls_of, ngram_control, pairwise_control
from twoclocks.evaluation.controls import (
    Whole,
    chow_liu_tree,
    mutual_information,
    ngram_samples,
    tree_samples,
    tried_orders,
)
from twoclocks.rules import RULES, ExactK, Parity, RandomHierarchy, RowK, Rule

Distribution = dict[tuple[int, ...], float]


def correlated(entries: int, symbols: int, rows: int, seed: int = 0) -> Whole:
    """Rows in which entries depend on those before, some of them more than others."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, symbols, size=(rows, entries))
    for entry in range(1, entries):
        copied = rng.random(rows) < entry / (entries + 1)
        found[:, entry] = np.where(copied, found[:, rng.integers(0, entry)], found[:, entry])
    return found


def ngram_distribution(rows: Whole, symbols: int, order: int) -> Distribution:
    """Every array with its probability, from counts of windows."""
    found = {}
    for word in itertools.product(range(symbols), repeat=rows.shape[1]):
        probability = 1.0
        for i in range(len(word)):
            first = max(0, i - order + 1)
            context = (rows[:, first:i] == word[first:i]).all(axis=1)
            if not context.any():
                probability = 0.0
                break
            probability *= (rows[context, i] == word[i]).mean()
        found[word] = probability
    return found


def tree_distribution(rows: Whole, symbols: int, edges: list[tuple[int, int]]) -> Distribution:
    """Every array with its probability: the pairs along the edges over the single entries between them."""
    degrees = Counter(entry for edge in edges for entry in edge)
    found = {}
    for word in itertools.product(range(symbols), repeat=rows.shape[1]):
        same = rows == word
        over = math.prod(same[:, a].mean() ** (degrees[a] - 1) for a in range(len(word)))
        pairs = math.prod((same[:, a] & same[:, b]).mean() for a, b in edges)
        found[word] = pairs / over if over else 0.0
    return found


def assert_drawn_from(drawn: Whole, truth: Distribution) -> None:
    assert sum(truth.values()) == pytest.approx(1)
    counts = Counter(map(tuple, drawn.tolist()))
    assert all(truth[word] > 0 for word in counts)
    possible = sorted((word for word in truth if truth[word] > 0), key=lambda word: truth[word])
    expected = np.array([truth[word] * len(drawn) for word in possible])
    observed = np.array([counts[word] for word in possible])
    rare = int(np.searchsorted(np.cumsum(expected), 10)) + 1  # together one cell
    cells = [np.concatenate([[values[:rare].sum()], values[rare:]]) for values in (observed, expected)]
    assert chisquare(cells[0], cells[1] * (cells[0].sum() / cells[1].sum())).pvalue > 1e-4


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize(("entries", "symbols"), [(6, 2), (4, 3)])
def test_ngrams_are_drawn_from_the_distribution_of_their_counts(entries: int, symbols: int, order: int) -> None:
    rows = correlated(entries, symbols, 60)
    truth = ngram_distribution(rows, symbols, order)
    assert_drawn_from(ngram_samples(rows, symbols, order, 40_000, np.random.default_rng(1)), truth)


def test_validity_of_a_tiny_rule_is_that_of_the_whole_distribution() -> None:
    rule = Parity(length=6, group=3)
    train = training_set(rule, 9, seed=3)
    for order in (1, 2, 3):
        truth = ngram_distribution(train.numpy(), 2, order)
        exact = sum(p for word, p in truth.items() if bool(rule.is_valid(torch.tensor([word]))))
        copied = sum(truth[tuple(row)] for row in train.tolist())
        found = ngram_control(rule, train, order, 20_000, seed=1)
        assert found.validity == pytest.approx(exact, abs=4 / math.sqrt(20_000))
        assert found.copies == pytest.approx(copied, abs=4 / math.sqrt(20_000))
        assert found.validity_ci[0] <= found.validity <= found.validity_ci[1]
        assert 0.2 < exact <= 1 and found.copies != found.validity


def test_a_full_order_recites_the_training_set() -> None:
    rule = RowK(side=4, k=2)
    train = training_set(rule, 50, seed=0)
    found = ngram_control(rule, train, 16, 3000, seed=0)
    assert found.copies == found.validity == 1 and found.copies_ci[1] == 1 and found.copies_ci[0] > 0.998
    drawn = ngram_samples(train.flatten(1).numpy(), 2, 16, 5000, np.random.default_rng(0))
    counts = Counter(map(tuple, drawn.tolist()))
    assert len(counts) == 50 and chisquare(list(counts.values())).pvalue > 1e-4


def test_contexts_wider_than_a_word_are_told_apart() -> None:
    rows = np.zeros((40, 90), dtype=np.int64)
    rows[:, 0] = rows[:, -1] = np.arange(40) % 2  # the last entry is known from 89 entries before
    for order, agreeing in ((90, 1.0), (89, 0.5)):
        drawn = ngram_samples(rows, 2, order, 2000, np.random.default_rng(0))
        assert (drawn[:, 0] == drawn[:, -1]).mean() == pytest.approx(agreeing, abs=0.06)


def test_marginals_are_the_training_sets() -> None:
    rows = correlated(7, 3, 200)
    n = 50_000
    singles = {order: ngram_samples(rows, 3, order, n, np.random.default_rng(order)) for order in (1, 2, 4)}
    for drawn in (*singles.values(), tree_samples(rows, 3, n, np.random.default_rng(9))):
        for symbol in range(3):
            assert np.abs((drawn == symbol).mean(axis=0) - (rows == symbol).mean(axis=0)).max() < 4 / math.sqrt(4 * n)
    order, parents = chow_liu_tree(rows, 3)
    drawn = tree_samples(rows, 3, n, np.random.default_rng(9))
    for entry in order[1:]:
        for a, b in itertools.product(range(3), repeat=2):
            shares = [((x[:, entry] == a) & (x[:, parents[entry]] == b)).mean() for x in (rows, drawn)]
            assert shares[1] == pytest.approx(shares[0], abs=4 / math.sqrt(4 * n))


def spanning_trees(entries: int) -> list[list[tuple[int, int]]]:
    """All of them, from their Prüfer sequences."""
    trees = []
    for sequence in itertools.product(range(entries), repeat=entries - 2):
        degrees, edges = [1 + sequence.count(a) for a in range(entries)], []
        for a in sequence:
            leaf = degrees.index(1)
            edges.append((leaf, a))
            degrees[leaf], degrees[a] = 0, degrees[a] - 1
        last = [a for a in range(entries) if degrees[a] == 1]
        trees.append([*edges, (last[0], last[1])])
    return trees


@pytest.mark.parametrize("seed", range(6))
def test_the_tree_is_the_likeliest_of_all(seed: int) -> None:
    rows = correlated(5, 2, 80, seed)
    order, parents = chow_liu_tree(rows, 2)
    edges = [(int(entry), int(parents[entry])) for entry in order[1:]]
    assert sorted(order.tolist()) == list(range(5))
    place = {entry: i for i, entry in enumerate(order.tolist())}
    assert all(place[parent] < place[entry] for entry, parent in edges)

    def likelihood(tree: list[tuple[int, int]]) -> float:
        truth = tree_distribution(rows, 2, tree)
        return sum(math.log(truth[tuple(row)]) for row in rows.tolist())

    values = [likelihood(tree) for tree in spanning_trees(5)]
    assert len(values) == 125 and likelihood(edges) == pytest.approx(max(values)) and min(values) < max(values) - 1
    assert_drawn_from(tree_samples(rows, 2, 40_000, np.random.default_rng(seed)), tree_distribution(rows, 2, edges))


def test_independent_entries_are_joined_to_a_tree_too() -> None:
    """All mutual informations are zero, which a sparse graph would take for no edges."""
    rows = np.array(list(itertools.product(range(2), repeat=5)))
    assert np.abs(mutual_information(rows, 2) - np.eye(5) * math.log(2)).max() < 1e-12
    order, parents = chow_liu_tree(rows, 2)
    assert len(order) == 5 and (parents[order[1:]] >= 0).all()
    constant = np.zeros((4, 3), dtype=np.int64)
    assert tree_samples(constant, 2, 5, np.random.default_rng(0)).tolist() == [[0, 0, 0]] * 5
    assert tree_samples(np.array([[1]]), 2, 2, np.random.default_rng(0)).tolist() == [[1], [1]]


def test_mutual_information_is_its_definition() -> None:
    rows = correlated(4, 3, 12)  # few rows: some pairs come once, some never
    found = mutual_information(rows, 3)
    for i, j in itertools.product(range(4), repeat=2):
        pairs = Counter(zip(rows[:, i].tolist(), rows[:, j].tolist(), strict=True))
        one, other = Counter(rows[:, i].tolist()), Counter(rows[:, j].tolist())
        exact = sum(c / 12 * math.log(12 * c / (one[a] * other[b])) for (a, b), c in pairs.items())
        assert found[i, j] == pytest.approx(exact, abs=1e-12)


def test_blocks_of_rows_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = correlated(6, 3, 100)
    whole = mutual_information(rows, 3)
    monkeypatch.setattr(controls, "BLOCK", 7)
    assert mutual_information(rows, 3) == pytest.approx(whole, abs=1e-14)


def test_parity_is_chance_to_orders_below_the_group_and_plain_to_the_group() -> None:
    """Fewer than three bits of a group are uniform and independent, so a large training set tells them nothing."""
    rule = Parity(length=12, group=3)  # chance 2^-4
    train = rule.sample(200_000, seed=1)
    found = {control.name: control for control in controls_of(rule, train, samples=4000, seed=2)}
    assert list(found) == ["1-gram", "2-gram", "3-gram, as long as a group", "pairwise tree"]
    for name in ("1-gram", "2-gram", "pairwise tree"):
        assert found[name].validity_ci[0] <= 2**-4 <= found[name].validity_ci[1], name
        assert found[name].copies == found[name].validity  # the training set holds all that is valid
    assert found["3-gram, as long as a group"].validity == 1


def test_scattered_groups_are_chance_to_every_order_up_to_the_group() -> None:
    rule = Parity(length=24, group=4, scatter_seed=1)  # chance 2^-6
    train = rule.sample(30_000, seed=1)
    found = controls_of(rule, train, samples=4000, seed=2)
    assert len(found) == 5
    for control in found:
        assert control.validity == pytest.approx(2**-6, abs=4 * math.sqrt(2**-6 / 4000)), control.name
    places = rule.parts(torch.arange(24)[None])["group"].flatten()
    assert ngram_control(Parity(length=24, group=4), train[:, places], 4, 500, seed=2).validity == 1  # put in order


def test_trigrams_of_parity_are_valid_and_new() -> None:
    rule = Parity(length=36, group=3)
    found = ngram_control(rule, training_set(rule, 512), 3, 2048, seed=0)
    assert found.validity == 1 and found.copies < 0.05


def test_images_have_no_controls_of_symbols() -> None:
    rule = RULES.create("images")
    assert controls_of(rule, training_set(rule, 16)) == []


@pytest.mark.parametrize("name", [name for name, cls in RULES.items() if not cls.is_image])
def test_every_rule_has_controls(name: str) -> None:
    for example in RULES.get(name).examples:
        rule = RULES.create(name, **example)
        found = controls_of(rule, training_set(rule, 256), samples=200)
        least = 2 if name == "free" else 3  # whose pieces are single entries, without neighbours
        assert len({control.name for control in found}) == len(found) >= least
        if rule.is_text:  # the order of a whole string would only repeat training strings
            assert [control.name for control in found] == ["1-gram", "2-gram", "3-gram"]
            continue
        assert sum("as long as" in control.name for control in found) == 1 and found[-1].name == "pairwise tree"
        for control in found:
            assert control.samples == 200 and 0 <= control.copies <= control.validity <= 1
            for share, (low, high) in ((control.validity, control.validity_ci), (control.copies, control.copies_ci)):
                assert low <= share <= high and high - low < 0.15


def names(rule: Rule, n: int) -> list[str]:
    return [control.name for control in controls_of(rule, training_set(rule, n), samples=20)]


def test_orders_stop_where_the_training_set_cannot_fill_their_contexts() -> None:
    assert names(Parity(length=14, group=7), 30)[:-1] == [
        *(f"{k}-gram" for k in range(1, 7)),
        "7-gram, as long as a group",
    ]
    assert names(ExactK(length=12, k=4), 32)[:-1] == [
        *(f"{k}-gram" for k in (1, 2, 3, 6)),
        "12-gram, as long as a group",
    ]
    assert names(ExactK(length=12, k=4), 31)[3] == "5-gram"
    assert tried_orders(range(1, 9), Parity(length=18, group=9), 10**6) == [1, 2, 3, 8]
    grammar = RandomHierarchy(depth=2, branching=2, vocabulary=6, synonyms=3)
    assert names(grammar, 20) == ["1-gram", "2-gram, as long as a piece of layer 1", "pairwise tree"]


def test_controls_depend_on_their_arguments_alone() -> None:
    rule = RowK(side=4, k=2)
    train = training_set(rule, 60)
    assert controls_of(rule, train, 300, seed=1) == controls_of(rule, train, 300, seed=1)
    assert controls_of(rule, train, 300, seed=1) != controls_of(rule, train, 300, seed=2)
    rows = train.flatten(1).numpy()
    assert pairwise_control(rule, train, 300, 4) == controls.judged(
        "pairwise tree", rule, rows, tree_samples(rows, 2, 300, numpy_stream(4, "pairwise control"))
    )
    assert isinstance(pairwise_control(rule, train, 1, 0), Control)


def test_what_cannot_be_asked_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Parity(length=6, group=3)
    train = training_set(rule, 5)
    for order in (0, 7):
        with pytest.raises(SettingError, match="use 1 to 6"):
            ngram_control(rule, train, order, 10, 0)
    with pytest.raises(SettingError, match="samples: 0"):
        pairwise_control(rule, train, 0, 0)
    with pytest.raises(SettingError, match="at least one training row"):
        ngram_control(rule, train[:0], 1, 10, 0)
    monkeypatch.setattr(controls, "PAIRED", 11)
    with pytest.raises(SettingError, match="6 entries of 2 symbols"):
        pairwise_control(rule, train, 10, 0)
    assert [control.name for control in controls_of(rule, train, 10)][-1] == "3-gram, as long as a group"


def test_copies_of_text_baselines_are_counted_as_those_of_a_run() -> None:
    """By a run of tokens; 3-grams of letters hardly ever repeat a whole string."""
    rule = RULES.create("text", length=64)
    train = training_set(rule, 64)
    whole, short = (controls_of(rule, train, 500, copy_run=run)[-1] for run in (64, 24))
    drawn = ngram_samples(train.numpy(), rule.symbols, 3, 500, numpy_stream(0, "n-gram control", 3))
    strings = ["".join(map(chr, row)) for row in train.tolist()]
    counted = sum(
        any("".join(map(chr, row[at : at + 24])) in text for at in range(41) for text in strings)
        for row in drawn.tolist()
    )
    assert whole.copies < short.copies == counted / 500
