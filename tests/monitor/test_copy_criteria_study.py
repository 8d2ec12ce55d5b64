"""The study of copy criteria on real images: its alterations, and its counts against plain loops on digits."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from twoclocks.data.images import PackedImages, fetch, read_packed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study() -> ModuleType:
    sys.path.insert(0, str(ROOT / "studies"))
    try:
        import copy_criteria
    finally:
        sys.path.pop(0)
    return copy_criteria


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> PackedImages:
    pytest.importorskip("sklearn", reason="needs the extra images")
    path = tmp_path_factory.mktemp("packed") / "digits.safetensors"
    fetch("digits", path)
    return read_packed(path)


def slow_ratios(train: np.ndarray[Any, Any], samples: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], list[int]]:
    """Nearest over second nearest distance of each sample, and the nearest row, one sample at a time."""
    ratios, rows = [], []
    for one in samples.astype(np.float64):
        distances = np.sqrt(((train.astype(np.float64) - one) ** 2).sum(axis=(1, 2, 3)))
        first, second = np.argsort(distances)[:2]
        ratios.append(distances[first] / distances[second])
        rows.append(int(first))
    return np.array(ratios), rows


def test_alterations_change_what_they_say(study: ModuleType) -> None:
    rng = np.random.default_rng(0)
    images = (0.5 * rng.uniform(-1, 1, (50, 3, 8, 8))).astype(np.float32)
    changed = {name: study.altered(images, name, seed=1) for name in study.ALTERATIONS}
    assert all(one.shape == images.shape and np.abs(one).max() <= 1 for one in changed.values())
    assert np.array_equal(changed["none"], images)
    assert np.array_equal(changed["flip"][:, :, :, 0], images[:, :, :, 7])
    assert np.array_equal(changed["shift"][:, :, :, 2:], images[:, :, :, :6])
    assert np.array_equal(changed["shift"][:, :, :, 0], images[:, :, :, 0])
    assert np.allclose(changed["brightness"] - images, 0.2, atol=1e-6)
    for name in ("noise 0.1", "noise 0.2"):
        assert (changed[name] - images).std() == pytest.approx(float(name[-3:]), rel=0.02)
    assert np.allclose(changed["blur"].mean(axis=(2, 3)), images.mean(axis=(2, 3)), atol=0.1)
    point = np.zeros((1, 1, 9, 9), dtype=np.float32)
    point[0, 0, 4, 4] = 1
    assert study.altered(point, "blur", 0)[0, 0, 4, 4] == pytest.approx(1 / (2 * np.pi), rel=0.02)
    assert study.altered(np.ones((1, 1, 4, 4), dtype=np.float32), "brightness", 0).max() == 1


def test_counts_on_digits_are_those_of_plain_loops(study: ModuleType, digits: PackedImages) -> None:
    train, held_out = study.split(digits, 0)
    assert len(train) == 898 and len(held_out) == 899
    train, held_out = train[:300], held_out[:400]
    known = study.TrainingSet(train)
    assert len(np.unique(known.groups)) == 300  # no near-duplicates: the plain ratio is the criterion's
    plain, calibrated, flips, hashed = (study.measured(case, train, held_out, 0) for case in study.CASES)
    chance, _ = slow_ratios(train, held_out[1::2])
    assert plain["chance"]["hits"] == (chance < 1 / 3).sum() and plain["chance"]["trials"] == 200
    threshold = np.sort(slow_ratios(train, held_out[::2])[0])[1]  # 1% of 201
    assert calibrated["threshold"] == pytest.approx(threshold, rel=1e-6)
    assert calibrated["chance"]["hits"] == (chance < threshold).sum()
    ratios, rows = slow_ratios(train, study.altered(train, "noise 0.1", 0))
    assert plain["found"]["noise 0.1"]["hits"] == ((ratios < 1 / 3) & (rows == np.arange(300))).sum() > 50
    assert all(row["found"]["none"]["hits"] == 300 for row in (plain, calibrated, flips))
    assert flips["found"]["flip"]["hits"] == 300 and plain["found"]["flip"]["hits"] < 30
    assert "32 × 32" in hashed["refused"] and "found" not in hashed


def test_the_stored_result_has_enough_images() -> None:
    """2,000 training images and 2,000 for the chance level, but for digits, of which there are 1,797."""
    rows = json.loads((ROOT / "results/copy_criteria.json").read_text(encoding="utf-8"))["rows"]
    assert {row["data"] for row in rows} == {"digits", "fashion-mnist", "cifar10", "kanji"}
    for row in rows:
        expected = (898, 449) if row["data"] == "digits" else (2000, 2000)
        for criterion in row["criteria"]:
            if "found" in criterion:
                assert (criterion["found"]["none"]["trials"], criterion["chance"]["trials"]) == expected
                assert criterion["found"]["none"]["rate"] == 1


def test_what_the_pages_say_of_the_stored_result_is_true() -> None:
    rows = json.loads((ROOT / "results/copy_criteria.json").read_text(encoding="utf-8"))["rows"]
    by = {row["data"]: {one["criterion"]: one for one in row["criteria"] if "found" in one} for row in rows}
    percent = {
        (data, criterion): {name: 100 * share["rate"] for name, share in one["found"].items()}
        for data, found in by.items()
        for criterion, one in found.items()
    }
    chance = {(data, name): 100 * one["chance"]["rate"] for data, found in by.items() for name, one in found.items()}
    for row in rows:
        data = row["data"]
        plain, calibrated, flips = (percent[data, case] for case in list(by[data])[:3])
        assert chance[data, "ratio below 1/3"] <= 0.1 and plain["shift"] < 1
        assert data == "kanji" or (plain["noise 0.2"] < 5 and plain["brightness"] < 2)
        assert all(calibrated[name] >= plain[name] for name in plain)
        assert 0.5 < 100 * np.mean(row["calibrated_chances"]) < 1.5
        assert flips["flip"] == 100 and max(plain["flip"], calibrated["flip"]) <= 18
        assert all(flips[name] > plain[name] - 4 for name in plain)
        assert (calibrated["shift"] > 50) == (data == "cifar10")
    spreads = {row["data"]: np.ptp(row["calibrated_chances"]) for row in rows}
    assert max(spreads, key=lambda name: float(spreads[name])) == "digits"
    first = next(row["calibrated_chances"] for row in rows if row["data"] == "digits")
    assert first[0] == max(first)
    assert percent["cifar10", "ratio, calibrated"]["shift"] == pytest.approx(81.1, abs=0.05)
    photographs, characters = percent["cifar10", "perceptual hash"], percent["kanji", "perceptual hash"]
    assert min(photographs[name] for name in ("noise 0.1", "noise 0.2", "blur", "brightness")) >= 97
    assert all(one["flip"] < 0.05 and one["shift"] < 1 for one in (photographs, characters))
    assert chance["cifar10", "perceptual hash"] == pytest.approx(0.1, abs=0.05)
    assert chance["kanji", "perceptual hash"] == pytest.approx(7.3, abs=0.05)
    spread = {row["data"]: f"{row['pixel_std']:.2f}" for row in rows}
    said = f"digits {spread['digits']}, Fashion-MNIST {spread['fashion-mnist']}, kanji {spread['kanji']}"
    assert said in (ROOT / "docs/images.md").read_text(encoding="utf-8") and spread["cifar10"] == "0.50"
