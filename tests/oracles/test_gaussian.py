"""Gaussian oracles against brute-force enumeration, at both ends of the noise scale, in every encoding."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

import twoclocks as tc
from twoclocks import oracles
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.rows import is_member
from twoclocks.data.encodings import ImageEncoding, OneHotImage, ScalarImage, SignImage, Tokens
from twoclocks.objectives.base import sample
from twoclocks.objectives.edm import EDM
from twoclocks.rules import Parity, Rule

SIGMAS = (0.002, 0.05, 0.3, 0.7, 1.5, 5.0, 80.0)
BITS = [
    *[("parity", {"length": 12, "group": group}) for group in (1, 2, 3, 4, 6, 12)],
    *[("exact_k", {"length": 10, "k": k}) for k in (0, 1, 4, 10)],
    ("row_k", {"side": 3, "k": 1}),
    ("row_variable_k", {"side": 3, "ks": [0, 2]}),
    ("row_variable_k", {"side": 4, "ks": [3, 1]}),
    ("global_k", {"side": 3, "ks": [1, 2]}),
    ("global_k", {"side": 4, "ks": [4, 0, 2]}),
]
SYMBOLS = [
    ("latin", {"side": 3}),
    ("latin", {"side": 4}),
    ("latin_cyclic", {"side": 4}),
    ("row_latin", {"side": 3}),
    ("sudoku", {"block_rows": 2, "block_cols": 2}),
    ("rhm", {"depth": 2, "branching": 2, "vocabulary": 4, "synonyms": 3, "rule_seed": 2}),
    ("rhm", {"depth": 3, "branching": 2, "vocabulary": 2, "synonyms": 2, "rule_seed": 0}),
]
CASES = [
    *[(name, settings, SignImage()) for name, settings in BITS],
    *[(name, settings, encoding) for name, settings in SYMBOLS for encoding in (ScalarImage(), OneHotImage())],
    ("latin", {"side": 3}, OneHotImage(zero_mean=True)),
    ("exact_k", {"length": 10, "k": 4}, OneHotImage()),
]


def brute_force(points: Tensor, y: Tensor, sigma: float) -> Tensor:
    """E[x | y] straight from Bayes' rule: weights exp(−‖y − x‖²/2σ²)."""
    flat, seen = points.flatten(1), y.flatten(1)
    weights = torch.softmax(-(seen[:, None] - flat[None]).square().sum(dim=2) / (2 * sigma**2), dim=1)
    return (weights @ flat).reshape(y.shape)


def noisy(clean: Tensor, sigma: float) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    # Twice the noise: rows that lie far from where they began must be right too.
    return clean + 2 * sigma * torch.randn(clean.shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("name", "settings", "encoding"), CASES, ids=str)
def test_rule_oracle_equals_enumeration(name: str, settings: dict[str, Any], encoding: ImageEncoding) -> None:
    rule = tc.rules.create(name, **settings)
    points = encoding.encode(rule, rule.enumerate()).double()
    if name != "latin_cyclic":  # whose list is a part of the valid arrays
        assert len(points) == rule.count()
    oracle = oracles.rule_denoiser(rule, encoding)
    for sigma in SIGMAS:
        y = noisy(encoding.encode(rule, rule.sample(20, seed=1)).double(), sigma)
        found = oracle(y, sigma)
        assert torch.allclose(found, brute_force(points, y, sigma), atol=1e-6), sigma
        if torch.cuda.is_available():
            assert torch.allclose(oracle(y.cuda(), sigma).cpu(), found, atol=1e-9)


@pytest.mark.parametrize("symbols", [2, 3])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_cube_oracle_equals_enumeration(sigma: float, symbols: int) -> None:
    space = tc.data.Space((5,), symbols)
    every = torch.tensor(list(itertools.product(range(symbols), repeat=5)))
    for encoding in (ScalarImage(), OneHotImage()):
        points = encoding.encode(space, every).double()
        y = noisy(points[::7], sigma)
        found = oracles.cube_denoiser(space, encoding)(y, sigma)
        assert torch.allclose(found, brute_force(points, y, sigma), atol=1e-9)


def test_cube_oracle_without_a_rule_is_tanh() -> None:
    y = torch.randn(7, 2, 3, dtype=torch.float64)
    for sigma in (0.3, 2.0):
        assert torch.allclose(oracles.cube_denoiser()(y, sigma), torch.tanh(y / sigma**2), atol=1e-12)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_empirical_oracle_equals_enumeration_in_any_chunk(sigma: float, chunk: int) -> None:
    train = Parity(length=12, group=3).sample(50, seed=5)
    y = noisy(2.0 * train[:30].double() - 1, sigma)
    found = oracles.empirical_denoiser(train, chunk=chunk)(y, sigma)
    assert torch.allclose(found, brute_force(2.0 * train.double() - 1, y, sigma), atol=1e-9)


def test_empirical_oracle_of_symbols_equals_enumeration() -> None:
    """In the scalar encoding rows of different length ‖x‖ compete: the norm must not be dropped."""
    rule = tc.rules.create("rhm", depth=2, branching=2, vocabulary=5, synonyms=3)
    train = tc.data.training_set(rule, 20, seed=0)
    for encoding in (ScalarImage(), OneHotImage(zero_mean=True)):
        points = encoding.encode(rule, train).double()
        for sigma in (0.1, 0.5, 2.0):
            y = noisy(points, sigma)
            found = oracles.empirical_denoiser(train, rule, encoding, chunk=6)(y, sigma)
            assert torch.allclose(found, brute_force(points, y, sigma), atol=1e-9)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *[("parity", {"length": 36, "group": group}) for group in (2, 3, 36)],
        ("exact_k", {"length": 36, "k": 18}),
        ("row_k", {"side": 6, "k": 3}),
        ("row_variable_k", {"side": 6, "ks": [2, 4]}),
        ("global_k", {"side": 6, "ks": [2, 4]}),
        ("row_latin", {"side": 6}),
        ("rhm", {"depth": 3, "branching": 2, "vocabulary": 16, "synonyms": 4}),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_oracles_of_the_papers_sizes_are_finite_at_every_noise_level(
    name: str, settings: dict[str, Any], dtype: torch.dtype
) -> None:
    rule = tc.rules.create(name, **settings)
    oracle = oracles.rule_denoiser(rule)
    clean = oracle.encoding.encode(rule, rule.sample(20, seed=1)).double()
    for sigma in torch.logspace(math.log10(0.002), math.log10(80), 20).tolist():
        y = noisy(clean, sigma).to(dtype)
        found = oracle(y, sigma)
        assert found.dtype == dtype and bool(torch.isfinite(found).all()) and float(found.abs().max()) <= 1
        if sigma < 0.01:
            assert torch.allclose(found, clean.to(dtype), atol=1e-6)


MEMORY = """
import resource, torch
import twoclocks as tc
rule = tc.rules.create("parity", length=36, group=3)
train = tc.data.training_set(rule, n=100_000, seed=0)
oracle = tc.oracles.empirical_denoiser(train)
clean = 2.0 * train[:512].double() - 1
oracle(clean[:1], 0.3)  # what the libraries need once
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert torch.allclose(oracle(clean, 0.3), clean, atol=0.02)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_empirical_oracle_of_a_hundred_thousand_rows_stays_small() -> None:
    """N × batch × D numbers would be 15 GB here, N × batch alone 410 MB; the pieces need less."""
    output = subprocess.run([sys.executable, "-c", MEMORY], check=True, capture_output=True, text=True).stdout
    assert int(output) < 200, f"{output} MB"


def test_training_sets_of_any_integer_type_are_taken() -> None:
    train = Parity(length=12, group=3).sample(9, seed=0)
    y = torch.randn(5, 12)
    expected = oracles.empirical_denoiser(train)(y, 0.7)
    assert torch.equal(oracles.empirical_denoiser(train.to(torch.uint8))(y, 0.7), expected)


def test_sigma_may_differ_from_row_to_row() -> None:
    rule = Parity(length=12, group=3)
    y = noisy(2.0 * rule.sample(3, 1).double() - 1, 1.0)
    sigma = torch.tensor([0.3, 1.0, 4.0], dtype=torch.float64)
    for oracle in (oracles.rule_denoiser(rule), oracles.cube_denoiser(), oracles.empirical_denoiser(rule.sample(9, 0))):
        together = oracle(y, sigma)
        apart = torch.cat([oracle(y[i : i + 1], float(sigma[i])) for i in range(3)])
        assert torch.allclose(together, apart, atol=1e-12)


def test_the_image_and_the_bare_array_get_the_same_answer() -> None:
    rule = tc.rules.create("row_k", side=4, k=2)
    y = torch.randn(3, 4, 4)
    oracle = oracles.rule_denoiser(rule)
    assert torch.equal(oracle(y, 0.5), oracle(y[:, None], 0.5)[:, 0])
    with torch.inference_mode():
        assert torch.equal(oracle(y.clone(), 0.5), oracle(y, 0.5))


def test_integers_arrays_and_no_rows_are_taken() -> None:
    rule = Parity(length=12, group=3)
    oracle = oracles.rule_denoiser(rule)
    signs = 2 * rule.sample(4, 0) - 1
    expected = oracle(signs.float(), 1.0)
    assert 0 < float(expected.abs().max()) < 1
    assert torch.equal(oracle(signs, 1.0), expected) and torch.equal(oracle(signs.float().numpy(), 1.0), expected)  # type: ignore[arg-type]
    assert oracle(torch.zeros(0, 12), 1.0).shape == (0, 12)
    assert torch.equal(oracles.rule_denoiser(rule, "sign")(signs, 1.0), expected)


def test_wrong_input_is_refused_with_the_fix() -> None:
    rule = Parity(length=12, group=3)
    for bad in (math.nan, math.inf):
        with pytest.raises(UserError, match="y: contains NaN or infinity"):
            oracles.rule_denoiser(rule)(torch.full((1, 12), bad), 0.5)
        with pytest.raises(UserError, match=r"train: torch\.float32"):
            oracles.empirical_denoiser(torch.full((2, 12), bad))
    with pytest.raises(UserError, match="or one for each of the 3 rows"):
        oracles.rule_denoiser(rule)(torch.zeros(3, 12), torch.ones(2))
    with pytest.raises(UserError, match=r"train: rows of shape \(8,\) are not the rule's; use \(12,\)"):
        oracles.empirical_denoiser(torch.zeros(3, 8, dtype=torch.int64), rule)
    with pytest.raises(UserError, match=r"y: shape \(3, 11\) .*use \(n, \*\(12,\)\) or \(n, \*\(1, 3, 4\)\)"):
        oracles.rule_denoiser(rule)(torch.zeros(3, 11), 0.5)
    with pytest.raises(UserError, match="sigma: 0"):
        oracles.rule_denoiser(rule)(torch.zeros(3, 12), 0)
    with pytest.raises(UserError, match=r"too many to list; .*only exact oracle"):
        oracles.rule_denoiser(tc.rules.create("latin", side=6))
    with pytest.raises(UserError, match=r"train: symbols from 0 to 3 are not allowed; use 0 to 1, or give rule="):
        oracles.empirical_denoiser(tc.rules.create("latin", side=4).sample(5, 0))
    with pytest.raises(SettingError, match=r"encoding\.name: .*use scalar or one_hot"):
        oracles.rule_denoiser(tc.rules.create("latin", side=4), SignImage())
    with pytest.raises(UserError, match="Gaussian noise needs"):
        oracles.rule_denoiser(rule, Tokens())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "settings", "encoding"),
    [
        ("parity", {"length": 36, "group": 3}, SignImage()),
        ("exact_k", {"length": 36, "k": 18}, SignImage()),
        ("row_k", {"side": 6, "k": 3}, SignImage()),
        ("row_variable_k", {"side": 6, "ks": [2, 4]}, SignImage()),
        ("global_k", {"side": 6, "ks": [2, 4]}, SignImage()),
        ("row_latin", {"side": 4}, ScalarImage()),
        ("latin", {"side": 4}, ScalarImage()),
        ("latin", {"side": 4}, OneHotImage(zero_mean=True)),
        ("sudoku", {"block_rows": 2, "block_cols": 2}, OneHotImage()),
        ("rhm", {"depth": 3, "branching": 2, "vocabulary": 8, "synonyms": 3}, OneHotImage()),
    ],
    ids=str,
)
def test_sampling_with_the_rule_oracle_gives_valid_samples_only(
    name: str, settings: dict[str, Any], encoding: ImageEncoding
) -> None:
    rule, edm = tc.rules.create(name, **settings), EDM()
    oracle = oracles.rule_denoiser(rule, encoding)
    noise = edm.draw_noise(128, encoding.shape(rule), torch.Generator().manual_seed(0)).double()
    decoded = encoding.decode(rule, sample(edm, edm.network_of(oracle), noise))
    assert bool(rule.is_valid(decoded.symbols).all())
    assert float(decoded.distance.max()) < 0.05
    assert len(torch.unique(decoded.symbols, dim=0)) > 0.5 * min(128, rule.count())


@pytest.mark.parametrize(
    ("rule", "encoding"),
    [
        (tc.rules.create("exact_k", length=36, k=12), SignImage()),
        (tc.rules.create("sudoku"), ScalarImage()),
        (tc.rules.create("sudoku"), OneHotImage(zero_mean=True)),
        (tc.rules.create("rhm", depth=3, branching=2, vocabulary=16, synonyms=4), ScalarImage()),
    ],
    ids=str,
)
def test_sampling_with_the_empirical_oracle_gives_training_rows_only(rule: Rule, encoding: ImageEncoding) -> None:
    edm, train = EDM(), tc.data.training_set(rule, 32, seed=0)
    oracle = oracles.empirical_denoiser(train, rule, encoding)
    noise = edm.draw_noise(128, encoding.shape(rule), torch.Generator().manual_seed(0)).double()
    decoded = encoding.decode(rule, sample(edm, edm.network_of(oracle), noise))
    assert is_member(decoded.symbols, train, rule.symbols).all()
    assert len(torch.unique(decoded.symbols, dim=0)) > 16
