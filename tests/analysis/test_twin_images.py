"""Twins on real images: whitened cosine, the nearest training image, and copies by ratio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

import twoclocks as tc
from twoclocks.analysis.twins import compare_twins
from twoclocks.analysis.whitening import whitening, whitening_of
from twoclocks.report.twins import draw
from twoclocks.rules.images import Images
from twoclocks.runs import Run


def cosine_of_pairs(vectors: torch.Tensor) -> torch.Tensor:
    """Cosines of all pairs of different rows."""
    unit = normalize(vectors, dim=1)
    return (unit @ unit.T)[~torch.eye(len(unit), dtype=torch.bool)]


def test_unrelated_digits_have_a_high_cosine_and_a_low_one_when_whitened() -> None:
    rule = tc.rules.create("images")
    assert isinstance(rule, Images)
    images = tc.data.training_set(rule, 200)
    plain = cosine_of_pairs(images.flatten(1).double() / 127.5 - 1).mean()
    white = cosine_of_pairs(whitening_of(rule, "cpu")(images)).mean()
    assert plain > 0.5 and abs(white) < 0.05


def test_whitening_removes_mean_and_correlations_and_keeps_constant_pixels_small() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(5000, 6, generator=generator).double() @ torch.randn(6, 6, generator=generator).double() + 3
    images[:, 0] = 7.0  # such as the corner of every digit
    white = whitening(images)(images)
    assert float(white.mean(dim=0).abs().max()) < 1e-9 and float(white[:, 0].abs().max()) < 1e-9
    cov = torch.cov(white.T)
    assert float((cov - torch.diag(cov.diag())).abs().max()) < 0.25  # the ridge leaves a little of small directions
    assert float(cov.diag().max()) <= 1.001


def test_twins_on_digits_are_compared_whitened_and_with_their_nearest_images(twin_digits: tuple[Run, Run]) -> None:
    a, b = twin_digits
    info = compare_twins(a, b)
    assert info.real and info.cosine is not None and info.cosine.shape == (5, 2, 2)
    assert info.measure == "1 - cosine of whitened images"
    # An independent computation at one step.
    rule, step = a.settings.rule, int(info.steps[2])
    assert isinstance(rule, Images)
    white = whitening(rule.reserved_images())
    first, second = (normalize(white(run.samples(step)[0].symbols), dim=1) for run in (a, b))
    assert 1 - info.samples.mean[2] == pytest.approx(float((first * second).sum(dim=1).mean()))
    train = normalize(white(b.settings.data.training_set(rule)), dim=1)
    assert info.cosine[2, 0, 1] == pytest.approx(float((first @ train.T).amax(dim=1).mean()))
    assert info.copies[2, 0, 0] == pytest.approx(float(a.samples(step)[1].copied.double().mean()))
    assert np.all(info.distance > 0) and "whitened" in " ".join(info.sentences())
    assert "nearest_cosine" in info.numbers() and "entries" not in " ".join(info.sentences())
    assert len(draw(info).axes) == 3


def test_models_that_copy_part_in_the_whitened_cosine(twin_digits: tuple[Run, Run]) -> None:
    """With copies in place of samples, the cosine to the own set is 1, and that of the twins is that of chance."""
    from twoclocks.analysis.twins import nearness, vectors_of
    from twoclocks.dissection.subject import RunSubject

    a, b = (RunSubject(run, "cpu") for run in twin_digits)
    as_vectors = vectors_of(a)
    own, other = (nearness(subject, a.train, as_vectors) for subject in (a, b))
    assert own["copied"].all() and torch.allclose(own["cosine"], torch.ones(16, dtype=torch.float64))
    assert not other["copied"].any() and float(other["cosine"].mean()) < 0.6
    assert replace(compare_twins(*twin_digits), cosine=None).real is False
