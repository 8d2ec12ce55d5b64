"""Correlation: what brightness, contrast, constants and symmetries do."""

from __future__ import annotations

import numpy as np
import pytest

from twoclocks.core.errors import UserError
from twoclocks.monitor.criteria.base import CRITERIA
from twoclocks.monitor.criteria.correlation import Correlation
from twoclocks.monitor.training_set import TrainingSet

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(60, 8, 8)).astype(np.float32)


def test_brightness_and_contrast_do_not_matter_but_inversion_does() -> None:
    match = Correlation().matcher(TrainingSet(IMAGES))
    found = match(np.stack([3 * IMAGES[4] + 100, 0.01 * IMAGES[9] - 5, -IMAGES[2], RNG.normal(size=(8, 8))]))
    assert found.copied.tolist() == [True, True, False, False]
    assert found.rows.tolist()[:2] == [4, 9]
    np.testing.assert_allclose(found.distances[:2], 0, atol=1e-5)


def test_equal_to_numpy_on_all_pairs() -> None:
    samples = RNG.normal(size=(25, 8, 8)).astype(np.float32) + 7
    found = Correlation(0.3).matcher(TrainingSet(IMAGES))(samples)
    table = np.corrcoef(samples.reshape(25, -1).astype(float), IMAGES.reshape(60, -1).astype(float))[:25, 25:]
    assert found.rows.tolist() == table.argmax(1).tolist()
    np.testing.assert_allclose(found.distances, 1 - table.max(1), atol=1e-12)
    assert found.copied.tolist() == (table.max(1) > 0.3).tolist() and 0 < found.copied.sum() < 25


def test_the_threshold_decides() -> None:
    sample = (IMAGES[:1] + 0.3 * RNG.normal(size=(1, 8, 8))).astype(np.float32)
    exact = float(np.corrcoef(sample.ravel(), IMAGES[0].ravel())[0, 1])
    train = TrainingSet(IMAGES)
    assert Correlation(exact - 1e-3).matcher(train)(sample).copied.all()
    assert not Correlation(exact + 1e-3).matcher(train)(sample).copied.any()


@pytest.mark.parametrize("value", [0.0, 0.1, 5.0])
def test_constant_samples_have_no_correlation(value: float) -> None:
    rows = np.concatenate([IMAGES, np.full((1, 8, 8), 0.1, dtype=np.float32)])
    almost = np.full((1, 8, 8), value, dtype=np.float32)
    almost[0, 0, 0] = np.nextafter(np.float32(value), np.float32(9)) if value else 0
    for sample in (np.full((1, 8, 8), value, dtype=np.float32), almost):
        found = Correlation().matcher(TrainingSet(rows))(sample)
        assert found.copied.tolist() == [False] and found.rows.tolist() == [-1] and found.distances.tolist() == [1.0]


def test_constant_training_rows_are_never_the_nearest() -> None:
    rows = np.concatenate([np.full((3, 8, 8), [[[1]], [[2]], [[3]]]), RNG.integers(0, 255, (2, 8, 8))])
    found = Correlation().matcher(TrainingSet(rows))(rows[3:] // 2)
    assert found.rows.tolist() == [3, 4] and found.copied.all()
    with pytest.raises(UserError, match="all equal"):
        Correlation().matcher(TrainingSet(rows[:3]))


def test_rounding_of_a_constant_training_row_is_no_pattern() -> None:
    rows = np.concatenate([np.full((1, 8, 8), 0.1, dtype=np.float32), IMAGES])
    rows[0, 0, 0] = np.nextafter(np.float32(0.1), np.float32(1))
    spike = np.zeros((1, 8, 8), dtype=np.float32)
    spike[0, 0, 0] = 1  # the correlation with the rounding of row 0 is 1
    found = Correlation().matcher(TrainingSet(rows))(spike)
    assert found.rows[0] > 0 and not found.copied.any()


def test_declared_symmetries_count_and_others_do_not() -> None:
    flipped = 2 * IMAGES[5:6, :, ::-1] + 1
    assert not Correlation().matcher(TrainingSet(IMAGES))(flipped).copied.any()
    found = Correlation().matcher(TrainingSet(IMAGES, ["flip"]))(flipped)
    assert found.copied.tolist() == [True] and found.rows.tolist() == [5]


def test_integers_do_not_overflow() -> None:
    rows = RNG.integers(0, 256, (10, 6, 6), dtype=np.uint8)
    assert Correlation().matcher(TrainingSet(rows))(255 - (255 - rows)).rows.tolist() == list(range(10))


@pytest.mark.parametrize("above", [0.0, 1.0, -0.5, float("nan")])
def test_thresholds_that_are_refused(above: float) -> None:
    with pytest.raises(UserError, match="above"):
        Correlation(above)


def test_kinds_and_name() -> None:
    with pytest.raises(UserError, match="texts"):
        Correlation().matcher(TrainingSet(["a", "b"]))
    with pytest.raises(UserError, match="at least 3"):
        Correlation().matcher(TrainingSet([[0, 1], [1, 0]]))
    assert CRITERIA.get("correlation")() == Correlation(0.98)
    assert Correlation(0.95).name == "copies by correlation above 0.95"
