"""The metric of image quality on real digits: floors, known generators, the contract, and where it has no columns."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from pictures import RESERVED, Digits, digits, noisy
from torch import Tensor

from twoclocks.data.encodings import Decoded
from twoclocks.evaluation import EvaluationSettings, Evaluator, Reference
from twoclocks.evaluation.quality import AutoencoderSpace, FeatureSpace, PixelSpace
from twoclocks.evaluation.quality.metrics import MEANING, ImageQuality
from twoclocks.rules import Parity
from twoclocks.testing.metrics import check_values, check_words

TRAIN, HELD_OUT = slice(RESERVED, RESERVED + 400), slice(RESERVED + 400, RESERVED + 1000)
FRESH = slice(RESERVED + 1000, None)  # 200 real images that nothing has seen


@cache
def evaluator(samples: int = 300, space: FeatureSpace | None = None) -> Evaluator:
    pixels = digits()[0].long()
    features = AutoencoderSpace(steps=200) if space is None else space
    settings = EvaluationSettings(samples=samples, features=features)
    return Evaluator(Digits(), pixels[TRAIN], settings, pixels[HELD_OUT])


def measured(images: Tensor, **chosen: int) -> dict[str, float]:
    found = evaluator(**chosen)(Decoded(images.long(), torch.zeros(len(images))))
    return {name: found[name] for name in MEANING}


def floors(**chosen: int) -> dict[str, float]:
    return {
        c.name: c.chance_rule for c in evaluator(**chosen).columns() if c.name in MEANING and c.chance_rule is not None
    }


def test_columns_say_what_they_mean_with_features_and_floor() -> None:
    columns = {column.name: column for column in evaluator().columns() if column.name in MEANING}
    assert (
        list(columns)
        == list(MEANING)
        == [*("frechet", "kernel_distance", "precision", "recall", "density", "coverage", "authenticity")]
    )
    made = ImageQuality(evaluator().reference)
    assert made.scale is not None and f"SHA-256 {made.scale.features.digest[:12]}" in columns["frechet"].about
    taken: dict[str, str] = {}
    for column in columns.values():
        check_words(column, taken)
        assert column.chance_rule is not None and column.chance_cube is None


def test_values_do_not_depend_on_the_order_and_counts_are_counts() -> None:
    made = ImageQuality(evaluator().reference)
    check_values(made, {column.name: column for column in made.columns()})


def test_the_floor_is_the_value_of_the_second_half_of_the_held_out_images() -> None:
    second = digits()[0][HELD_OUT][300:]
    assert measured(second) == pytest.approx(floors(), rel=1e-9)


def test_fresh_real_images_are_at_the_floor_and_other_generators_are_not() -> None:
    """Samples are 200 per group here, so that 200 images that nothing has seen are one group."""
    pixels = digits()[0]
    floor, fresh = floors(samples=200), measured(pixels[FRESH], samples=200)
    for name, slack in (
        ("precision", 0.1),
        ("recall", 0.1),
        ("density", 0.3),
        ("coverage", 0.1),
        ("authenticity", 0.15),
    ):
        assert abs(fresh[name] - floor[name]) < slack, name
    assert fresh["frechet"] < 1.5 * floor["frechet"] and abs(fresh["kernel_distance"]) < 0.1

    copying = measured(pixels[TRAIN][:200], samples=200)  # as good as real ones, but copies
    assert copying["authenticity"] == 0 and copying["frechet"] < 1.5 * floor["frechet"]
    collapsed = measured(pixels[TRAIN][:1].repeat(200, 1, 1, 1), samples=200)
    assert collapsed["recall"] == 0 and collapsed["coverage"] < 0.2 and collapsed["frechet"] > 10 * floor["frechet"]
    spoilt = measured(noisy(pixels[FRESH], 1.0), samples=200)
    assert spoilt["precision"] < floor["precision"] - 0.3 and spoilt["frechet"] > 5 * floor["frechet"]
    assert spoilt["kernel_distance"] > 10 * abs(fresh["kernel_distance"]) and spoilt["authenticity"] > 0.9


def test_more_samples_are_cut_into_groups_so_that_the_bias_stays_that_of_the_floor() -> None:
    """A thousand times the same images would have a smaller bias if they were compared at once."""
    made = ImageQuality(evaluator(samples=200).reference)
    assert made.scale is not None
    pixels = torch.cat([digits()[0][TRAIN], digits()[0][FRESH]])
    found = made.scale(pixels)
    assert (found.compared, found.samples) == (600, 600)
    found = made.scale(pixels[:599])
    assert (found.compared, found.samples) == (400, 599)  # what does not fill a group is left out


def test_too_few_samples_have_no_value() -> None:
    row = measured(digits()[0][FRESH][:199], samples=200)
    assert all(math.isnan(value) for value in row.values())


def test_there_are_no_columns_without_images_held_out_ones_or_enough_of_them() -> None:
    pixels, settings = digits()[0].long(), EvaluationSettings()
    rule = Parity(length=12, group=3)
    for reference in (
        Reference(rule, rule.sample(100, 0), settings, rule.sample(100, 1)),
        Reference(Digits(), pixels[TRAIN], settings),
        Reference(Digits(), pixels[TRAIN], settings, pixels[HELD_OUT][:63]),
        Reference(Digits(), pixels[TRAIN], EvaluationSettings(samples=31), pixels[HELD_OUT]),
    ):
        assert ImageQuality(reference).columns() == []
    made = ImageQuality(
        Reference(Digits(), pixels[TRAIN], EvaluationSettings(features=PixelSpace()), pixels[HELD_OUT][:64])
    )
    assert len(made.columns()) == 7


def test_a_network_is_trained_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ImageQuality(evaluator().reference)
    monkeypatch.setattr(AutoencoderSpace, "fit", None)  # a second call would be an error
    again = ImageQuality(
        Reference(Digits(), *[evaluator().train, evaluator().reference.settings], evaluator().reference.held_out)
    )
    assert first.scale is not None and again.scale is not None and again.scale.features is first.scale.features


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_numbers_on_the_gpu_are_those_on_the_cpu() -> None:
    reference = evaluator().reference
    there = Reference(Digits(), reference.train.cuda(), reference.settings, reference.held_out)
    here, gpu = ImageQuality(reference).scale, ImageQuality(there).scale
    assert here is not None and gpu is not None
    images = digits()[0][TRAIN][:300]
    pairs = zip(here(images), gpu(images.cuda()), strict=True)
    assert all(float(a) == pytest.approx(float(b), rel=1e-3, abs=1e-4) for a, b in pairs)
