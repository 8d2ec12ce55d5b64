"""The perceptual hash: its bits against their definition, and what changes them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.fft import dctn
from scipy.ndimage import gaussian_filter, zoom

from twoclocks.core.errors import UserError
from twoclocks.monitor.criteria import perceptual_hash
from twoclocks.monitor.criteria.base import CRITERIA
from twoclocks.monitor.criteria.perceptual_hash import (
    PerceptualHash,
    area_weights,
    nearest_hashes,
    perceptual_hashes,
    reduced,
)
from twoclocks.monitor.training_set import TrainingSet

RNG = np.random.default_rng(0)
IMAGES = gaussian_filter(RNG.normal(size=(30, 64, 96)), (0, 4, 4)).astype(np.float32)  # smooth, as photographs are


def bits(images: np.ndarray) -> np.ndarray:
    return np.unpackbits(perceptual_hashes(images)[0][:, None].view(np.uint8), axis=1)


def test_bits_follow_the_definition() -> None:
    found = bits(IMAGES)
    for image, ours in zip(IMAGES.astype(float), found, strict=True):
        small = image.reshape(32, 2, 32, 3).mean((1, 3))
        waves = dctn(small)[1:9, 1:9].ravel()
        assert ours.tolist() == (waves > np.median(waves)).astype(int).tolist()
        assert ours.sum() == 32


def test_area_weights_cover_each_pixel_once() -> None:
    for pixels in (32, 33, 45, 100):
        weights = area_weights(pixels)
        np.testing.assert_allclose(weights.sum(1), 1)
        np.testing.assert_allclose(weights.sum(0), 32 / pixels)
    np.testing.assert_allclose(reduced(IMAGES[:, :32, :32].astype(float)), IMAGES[:, :32, :32], atol=1e-12)


def test_hamming_distances_equal_the_count_of_differing_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perceptual_hash, "TILE", 45)  # several pieces
    samples, train = RNG.integers(0, 2**63, (20, 1)).astype(np.uint64), RNG.integers(0, 2**63, (9, 1)).astype(np.uint64)
    table = (np.unpackbits(samples.view(np.uint8), 1)[:, None] != np.unpackbits(train.view(np.uint8), 1)[None]).sum(-1)
    rows, distances = nearest_hashes(samples[:, 0], train[:, 0])
    assert rows.tolist() == table.argmin(1).tolist() and distances.tolist() == table.min(1).tolist()


def test_changed_copies_are_found_and_other_images_are_not() -> None:
    match = PerceptualHash().matcher(TrainingSet(IMAGES[:20]))
    noisy = IMAGES[:20] + 0.1 * IMAGES.std() * RNG.normal(size=(20, 64, 96))
    for changed in (IMAGES[:20] * 0.4 + 3, noisy, gaussian_filter(IMAGES[:20], (0, 1, 1))):
        found = match(changed)
        assert found.copied.all() and found.rows.tolist() == list(range(20))
    others = match(IMAGES[20:])
    assert not others.copied.any() and (others.distances > 10).all()


def test_most_is_the_largest_number_of_bits() -> None:
    train = TrainingSet(IMAGES[:20])
    distance = int(PerceptualHash().matcher(train)(IMAGES[20:21]).distances[0])
    assert PerceptualHash(distance).matcher(train)(IMAGES[20:21]).copied.all()
    assert not PerceptualHash(distance - 1).matcher(train)(IMAGES[20:21]).copied.any()


def test_scaled_images_have_almost_the_same_hash() -> None:
    large = zoom(IMAGES, (1, 2.5, 1.5), order=1)
    assert large.shape[1:] == (160, 144)
    assert (bits(large) != bits(IMAGES)).sum(1).max() <= 6


def test_channels_first_last_and_none_give_the_same_hash() -> None:
    last = RNG.integers(0, 256, (6, 40, 48, 3), dtype=np.uint8)
    first = np.moveaxis(last, 3, 1)
    grey = last @ np.array([0.299, 0.587, 0.114])
    opaque = np.concatenate([last, RNG.integers(0, 256, (6, 40, 48, 1), dtype=np.uint8)], 3)
    expected = bits(grey).tolist()
    assert bits(last).tolist() == bits(first).tolist() == bits(opaque).tolist() == expected
    assert bits(grey[:, None]).tolist() == expected


def test_images_hashed_in_pieces_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = bits(IMAGES).tolist()
    monkeypatch.setattr(perceptual_hash, "BATCH", 64 * 96 * 7)
    assert bits(IMAGES).tolist() == expected


def test_declared_symmetries_are_hashed() -> None:
    flipped = IMAGES[3:4, :, ::-1]
    assert not PerceptualHash().matcher(TrainingSet(IMAGES))(flipped).copied.any()
    found = PerceptualHash().matcher(TrainingSet(IMAGES, ["flip"]))(flipped)
    assert found.copied.all() and found.rows.tolist() == [3]


@pytest.mark.parametrize("value", [0.0, 0.3, 200.0])
def test_images_of_one_colour_have_no_hash(value: float) -> None:
    blank = np.full((1, 64, 96), value, dtype=np.float32)
    found = PerceptualHash(31).matcher(TrainingSet(np.concatenate([blank, IMAGES])))(blank)
    assert not found.copied.any() and found.rows.tolist() == [-1] and found.distances.tolist() == [np.inf]
    assert PerceptualHash().matcher(TrainingSet(np.concatenate([blank, IMAGES])))(IMAGES).rows.min() == 1
    assert (PerceptualHash(31).matcher(TrainingSet(blank))(IMAGES).rows == -1).all()


@pytest.mark.parametrize("shape", [(31, 64), (64, 31), (3, 28, 28), (8, 8)])
def test_small_images_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="32 × 32"):
        PerceptualHash().matcher(TrainingSet(RNG.normal(size=(2, *shape))))


def test_what_else_is_refused_and_name() -> None:
    with pytest.raises(UserError, match="for images"):
        PerceptualHash().matcher(TrainingSet(RNG.normal(size=(2, 100))))
    for most in (-1, 32, 1.5):
        with pytest.raises(UserError, match="most"):
            PerceptualHash(most)  # type: ignore[arg-type]
    assert CRITERIA.get("perceptual_hash")() == PerceptualHash(10)
    assert PerceptualHash(6).name == "copies up to 6 bits of a perceptual hash"
