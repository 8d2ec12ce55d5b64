"""The denoiser of a training set at image size: against a slow loop, without and with much noise, in tiles."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch
from torch import Tensor

import twoclocks as tc
from twoclocks import oracles
from twoclocks.data.encodings import Encoding, OneHotImage, Pixels, ScalarImage, SignImage, Space
from twoclocks.data.sets import held_out, training_set
from twoclocks.evaluation.image_neighbours import RatioCopies
from twoclocks.objectives import EDM, Objective, sample
from twoclocks.objectives.ddpm import DDPM
from twoclocks.oracles.gaussian import SymbolDenoiser
from twoclocks.rules import Rule
from twoclocks.rules.images import Images

DIGITS = Images()
SIGMAS = (0.01, 0.3, 1.0, 3.0, 100.0)


@pytest.fixture(scope="module")
def train() -> Tensor:
    return training_set(DIGITS, 40, seed=0)


def noisy(rows: Tensor, sigma: float) -> Tensor:
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Pixels().encode(DIGITS, rows).double() + sigma * noise


def slow(train: Tensor, y: Tensor, sigma: float) -> tuple[list[list[float]], list[float]]:
    """Mean and variance row by row, image by image, number by number."""
    images = [[value / 127.5 - 1 for value in row] for row in train.flatten(1).tolist()]
    means, variances = [], []
    for row in y.flatten(1).tolist():
        far = [sum((a - b) ** 2 for a, b in zip(row, image, strict=True)) for image in images]
        weights = [math.exp(-(one - min(far)) / (2 * sigma**2)) for one in far]
        share = [weight / sum(weights) for weight in weights]
        mean = [sum(w * image[k] for w, image in zip(share, images, strict=True)) for k in range(len(row))]
        parts = [sum((x - m) ** 2 for x, m in zip(image, mean, strict=True)) for image in images]
        means.append(mean)
        variances.append(sum(w * part for w, part in zip(share, parts, strict=True)) / len(mean))
    return means, variances


@pytest.mark.parametrize("sigma", SIGMAS)
def test_on_digits_it_is_the_slow_loop_in_tiles_of_any_size(train: Tensor, sigma: float) -> None:
    y = noisy(torch.cat([train[:3], held_out(DIGITS, train, 3)]), sigma)
    means, variances = slow(train, y, sigma)
    for chunk in (1, 7, 40, 1000, None):
        oracle = oracles.empirical_denoiser(train, DIGITS, chunk=chunk)
        assert torch.allclose(oracle(y, sigma).flatten(1), torch.tensor(means, dtype=torch.float64), atol=1e-6)
        assert torch.allclose(oracle.variance(y, sigma), torch.tensor(variances, dtype=torch.float64), atol=1e-6)


@pytest.mark.parametrize(
    ("rule", "encoding"),
    [
        (tc.rules.create("parity", length=12, group=3), SignImage()),
        (tc.rules.create("rhm", depth=2, branching=2, vocabulary=5, synonyms=3), ScalarImage()),
        (tc.rules.create("latin", side=4), OneHotImage(zero_mean=True)),
    ],
    ids=str,
)
def test_on_symbols_it_is_the_posterior_of_listed_rows(rule: Rule, encoding: Encoding) -> None:
    train = training_set(rule, 20, seed=0)
    listed = SymbolDenoiser(encoding, rule, oracles.list_posterior(train, rule.symbols))  # type: ignore[arg-type]
    found = oracles.empirical_denoiser(train, rule, encoding, chunk=6)
    clean = encoding.encode(rule, rule.sample(30, seed=1)).double()
    sigma = torch.linspace(0.05, 3, 30, dtype=torch.float64)
    y = clean + sigma.reshape(-1, 1, 1, 1) * torch.randn(clean.shape, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(found(y, sigma), listed(y, sigma), atol=1e-6)
    assert torch.allclose(found.variance(y, sigma), listed.variance(y, sigma), atol=1e-6)
    assert found(y.float(), sigma).dtype == torch.float32


def test_without_noise_it_is_the_nearest_image_and_with_much_noise_the_mean(train: Tensor) -> None:
    oracle = oracles.empirical_denoiser(train, DIGITS)
    images = Pixels().encode(DIGITS, train).double()
    y = noisy(held_out(DIGITS, train, 20), 0.3)
    nearest = torch.cdist(y.flatten(1), images.flatten(1)).argmin(dim=1)
    assert torch.allclose(oracle(y, 1e-3), images[nearest], atol=1e-9)
    assert float(oracle.variance(y, 1e-3).max()) < 1e-9
    mean = images.mean(dim=0)
    assert torch.allclose(oracle(y, 1e6), mean.expand_as(y), atol=1e-6)
    spread = float((images - mean).square().mean())
    assert oracle.variance(y, 1e6).tolist() == pytest.approx([spread] * 20, rel=1e-6)


def test_colours_keep_their_place_and_wrong_shapes_are_named() -> None:
    space = Space((3, 4, 5), 256)
    rows = torch.randint(0, 256, (6, 3, 4, 5), generator=torch.Generator().manual_seed(0))
    oracle = oracles.empirical_denoiser(rows, space, "pixels")
    y = Pixels().encode(space, rows)
    assert torch.allclose(oracle(y, 0.05), y, atol=1e-5)
    with pytest.raises(tc.UserError, match=r"y: shape \(6, 4, 5, 4\) is not allowed; use \(n, \*\(3, 4, 5\)\)$"):
        oracle(torch.zeros(6, 4, 5, 4), 0.5)
    with pytest.raises(tc.UserError, match="this oracle needs sign, scalar or one_hot"):
        oracles.cube_denoiser(DIGITS, "pixels")


@pytest.mark.parametrize(
    "objective", [EDM(sampler_steps=16, sigma_data=0.75), DDPM(sampler_levels=30)], ids=["edm", "ddpm"]
)
def test_a_sampler_with_this_denoiser_returns_training_images(objective: Objective, train: Tensor) -> None:
    network = objective.network_of(oracles.empirical_denoiser(train, DIGITS))  # type: ignore[attr-defined]
    noise = objective.draw_noise(64, DIGITS.shape, torch.Generator().manual_seed(0))
    pixels = Pixels().decode(DIGITS, sample(objective, network, noise)).symbols
    assert bool(RatioCopies(train, 1 / 3).found(pixels).all())
    assert len(torch.unique((pixels[:, None] - train).flatten(2).abs().sum(dim=2).argmin(dim=1))) > 10


LARGE = """
import resource, torch
from twoclocks.data.encodings import Pixels, Space
from twoclocks.oracles import empirical_denoiser
rows = torch.randint(0, 256, (6000, 3, 32, 32), dtype=torch.uint8)
oracle = empirical_denoiser(rows, Space((3, 32, 32), 256), Pixels())
y = Pixels().encode(oracle.space, rows[:4])
oracle(y[:1], 0.3)  # what the libraries need once
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert torch.allclose(oracle(y, 0.3), y, atol=1e-5)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_images_of_32_pixels_stay_small() -> None:
    """All rows in float64 are 147 MB; a tile takes 34."""
    output = subprocess.run([sys.executable, "-c", LARGE], check=True, capture_output=True, text=True).stdout
    assert int(output) < 100, f"{output} MB"
