"""The two nearest images against a slow version; copies by ratio on real digits, with the held-out chance level."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import twoclocks as tc
from twoclocks.data.encodings import Decoded
from twoclocks.data.sets import natural_held_out, training_set
from twoclocks.evaluation import image_neighbours
from twoclocks.evaluation.evaluator import Evaluator
from twoclocks.evaluation.image_neighbours import Factor, ImageNeighbours, RatioCopies, fraction
from twoclocks.evaluation.settings import EvaluationSettings


def random_images(count: int, seed: int, shape: tuple[int, ...] = (3, 5, 4)) -> torch.Tensor:
    return torch.randint(0, 256, (count, *shape), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "shape", [(3, 5, 4), (1, 17, 16), (3, 10, 9)]
)  # float64; integers of 8 bits; not a multiple of 8
@pytest.mark.parametrize("side", [3, 2048])
def test_the_two_nearest_are_those_of_a_slow_search(
    side: int, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(image_neighbours.SIDE, "cpu", side)
    images, samples = random_images(23, 0, shape), random_images(11, 1, shape)
    found = ImageNeighbours(images).two_nearest(samples)
    for row, sample in enumerate(samples.numpy()):
        differences = (images.numpy() - sample) / 127.5
        distances = np.sqrt((differences**2).mean(axis=(1, 2, 3)))
        order = np.argsort(distances)[:2]
        assert found.row[row].tolist() == order.tolist()
        assert found.distance[row].tolist() == pytest.approx(distances[order].tolist(), abs=1e-12)
        assert float(found.ratio[row]) == pytest.approx(distances[order[0]] / distances[order[1]])


def test_an_equal_image_has_ratio_0_and_one_that_stands_twice_is_not_found() -> None:
    images = random_images(5, 0)
    assert ImageNeighbours(images).two_nearest(images).ratio.tolist() == [0.0] * 5
    twice = torch.cat([images, images[:1]])
    assert RatioCopies(twice, 1 / 3).found(images).tolist() == [False, True, True, True, True]


def test_wrong_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="two nearest"):
        ImageNeighbours(random_images(1, 0))
    with pytest.raises(ValueError, match="values"):
        ImageNeighbours(random_images(3, 0)).two_nearest(torch.zeros(2, 1, 2, 2, dtype=torch.int64))


@pytest.mark.parametrize("values", [64, 256, 3073, image_neighbours.MOST_VALUES, image_neighbours.MOST_VALUES + 1])
def test_squared_distances_are_exact_also_between_the_farthest_images(values: int) -> None:
    black, white, grey = (torch.full((1, values), level, dtype=torch.uint8) for level in (0, 255, 128))
    rows = torch.cat([black, white, grey])
    found = Factor.of(rows).squared_distances(rows).long()
    expected = torch.tensor([[(a - b) ** 2 * values for b in (0, 255, 128)] for a in (0, 255, 128)])
    assert torch.equal(found, expected)


def test_what_is_no_pixel_is_refused() -> None:
    """A byte would wrap silently."""
    for wrong in (random_images(3, 0).float(), random_images(3, 0) + 200, random_images(3, 0) - 200):
        with pytest.raises(ValueError, match="0 to 255"):
            ImageNeighbours(wrong)
        with pytest.raises(ValueError, match="0 to 255"):
            ImageNeighbours(random_images(3, 0)).two_nearest(wrong)


def test_words_of_ratios() -> None:
    assert [fraction(value) for value in (1 / 3, 0.5, 0.4)] == ["1/3", "1/2", "0.4"]


def test_on_real_digits_copies_with_a_little_noise_are_found_and_new_digits_are_not() -> None:
    rule = tc.rules.create("images")
    train = training_set(rule, 300)
    held_out = natural_held_out(rule, train)
    assert held_out is not None and len(held_out) == rule.support() - 300
    evaluator = Evaluator(rule, train, EvaluationSettings(), held_out[:300], None, held_out)
    columns = {column.name: column for column in evaluator.columns()}
    assert {"sample_memorization", "holdout_memorization", "image_distance"} <= columns.keys()
    assert "sample_accuracy" not in columns and "quantization_distance" not in columns
    chance = columns["sample_memorization"].chance_rule
    assert chance is not None and chance < 0.005  # published for digits with 2,000: 0
    noise = torch.randn(train.shape, generator=torch.Generator().manual_seed(0)) * 0.05 * 127.5
    copies = (train + noise).round().clamp(0, 255).long()
    samples = torch.cat([copies[:60], held_out[300:340]])
    found = evaluator(Decoded(samples, torch.zeros(100)))
    assert 0.5 < found["sample_memorization"] <= 0.6 + chance  # only of the 60 copies
    assert found["holdout_memorization"] < 0.02
    fresh = evaluator(Decoded(held_out[:400], torch.zeros(400)))
    expected = columns["image_distance"].chance_rule
    assert fresh["image_distance"] == pytest.approx(expected, rel=0.05)
    assert found["image_distance"] < 0.7 * fresh["image_distance"]


def test_a_larger_ratio_finds_more() -> None:
    rule = tc.rules.create("images")
    train = training_set(rule, 200)
    held_out = natural_held_out(rule, train)
    assert held_out is not None
    shares = [
        Evaluator(rule, train, EvaluationSettings(copy_ratio=ratio), None, None, held_out).reference.copy_chance
        for ratio in (0.2, 0.8, 1.0)
    ]
    assert shares[0] < shares[1] < shares[2] and shares[2] > 0.99


def test_mirror_images_count_as_the_image_itself() -> None:
    """Against a slow version: every distance to every image, in both orientations."""
    torch.manual_seed(3)
    images, samples = torch.randint(0, 256, (30, 1, 4, 4)), torch.randint(0, 256, (50, 1, 4, 4))
    samples[:10] = images[:10].flip(-1)
    samples[10:15] = images[10:15]
    images[20] = (images[20] + images[20].flip(-1)) // 2  # its own mirror image
    samples[15] = images[20]
    found = ImageNeighbours(images, mirrored=True).two_nearest(samples)
    squares = (samples[:, None].double() - torch.stack([images, images.flip(-1)], dim=1).flatten(0, 1)).square()
    nearest = squares.flatten(2).mean(dim=2).unflatten(1, (30, 2)).amin(dim=2).sqrt() / 127.5
    values, rows = nearest.topk(2, dim=1, largest=False)
    assert torch.allclose(found.distance, values) and torch.equal(found.row, rows)
    assert (found.ratio[:16] == 0).all()
    plain = ImageNeighbours(images).two_nearest(samples)
    assert (plain.ratio[:10] > 1 / 3).all()
