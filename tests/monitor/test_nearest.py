from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from twoclocks.core.errors import UserError
from twoclocks.monitor import closeness, nearest
from twoclocks.monitor.near_duplicates import dimension, near_duplicates, other_rows
from twoclocks.monitor.nearest import Nearest, Neighbours

Array = np.ndarray[Any, Any]


def brute_force(
    samples: Array, rows: Array, k: int, groups: Array | None = None, variants: Sequence[Callable[[Array], Array]] = ()
) -> tuple[Array, Array]:
    """Distances and rows, from all differences in float64, one pair at a time."""
    groups = np.arange(len(rows)) if groups is None else groups
    forms = [np.asarray(form(rows), dtype=np.float64) for form in (lambda x: x, *variants)]
    distances, found = np.full((len(samples), k), np.inf), np.full((len(samples), k), -1)
    for i, sample in enumerate(np.asarray(samples, dtype=np.float64)):
        square = np.min([((form - sample) ** 2).reshape(len(rows), -1).sum(1) for form in forms], axis=0)
        seen: list[int] = []
        for j in np.argsort(square, kind="stable"):
            if groups[j] not in seen and len(seen) < k:
                distances[i, len(seen)], found[i, len(seen)] = np.sqrt(square[j]), j
                seen.append(groups[j])
    return distances, found


def check(samples: Array, rows: Array, k: int = 2, groups: Array | None = None, variants: Any = ()) -> Neighbours:
    result = Nearest(rows, groups, variants).search(samples, k)
    distances, found = brute_force(samples, rows, k, groups, variants)
    np.testing.assert_allclose(result.distances, distances, rtol=1e-13, atol=0)
    np.testing.assert_array_equal(result.rows, found)
    return result


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_equal_to_brute_force_on_random_rows(k: int, kind: type) -> None:
    result = check(draw(40, 3, 10, seed=1).astype(kind), draw(500, 3, 10).astype(kind), k)
    assert result.second_pass == 0


def test_rows_of_one_group_count_once() -> None:
    rows = draw(300, 24)
    rows[100:200] = rows[:100] + 1e-3 * draw(100, 24, seed=2)
    groups = np.r_[np.arange(100), np.arange(100), np.arange(1000, 1100)]
    result = check(rows[:50] + 1e-4, rows, 3, groups)
    assert (groups[result.rows[:, 0]] != groups[result.rows[:, 1]]).all()


def test_a_group_larger_than_what_is_left_for_a_sample() -> None:
    rows = np.concatenate([1e-3 * draw(400, 24) + 1, draw(100, 24, seed=2)])
    check(np.ones((20, 24)), rows, 3, np.r_[np.zeros(400, dtype=int), np.arange(1, 101)])


def test_variants_belong_to_their_row() -> None:
    rows = draw(200, 4, 6)
    flips = [lambda x: x[..., ::-1], lambda x: x[:, ::-1]]
    samples = np.concatenate([rows[:20, :, ::-1], rows[20:40, ::-1], draw(20, 4, 6, seed=3)]) + 1e-3
    result = check(samples, rows, 2, np.arange(200) // 2, flips)
    np.testing.assert_array_equal(result.rows[:40, 0], np.arange(40))


def test_ties_and_repeated_rows_come_in_the_order_of_their_index() -> None:
    rows = np.repeat(np.random.default_rng(0).integers(0, 3, (40, 5)), 3, axis=0)
    result = check(np.random.default_rng(1).integers(0, 3, (60, 5)), rows, 4)
    assert (np.diff(result.distances, axis=1) == 0).any()


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int64, np.bool_])
def test_integers(kind: type) -> None:
    top = 2 if kind is np.bool_ else 100
    rows, samples = (np.random.default_rng(seed).integers(0, top, (200, 30)).astype(kind) for seed in (0, 1))
    check(samples, rows)


def test_values_far_from_zero_keep_their_differences() -> None:
    assert check(1e4 + 1e-3 * draw(30, 40, seed=1), 1e4 + 1e-3 * draw(300, 40)).second_pass == 0


def test_a_second_pass_where_bfloat16_cannot_tell_rows_apart() -> None:
    centres = draw(4, 40)
    rows = np.repeat(centres, 100, axis=0) * (1 + 1e-7 * draw(400, 40, seed=1))
    samples = np.repeat(centres, 5, axis=0) * (1 + 1e-7 * draw(20, 40, seed=2))
    assert check(samples, rows).second_pass == 20


def test_differences_that_no_product_in_float64_can_tell() -> None:
    rows = np.r_[1 + 1e-11 * draw(200, 8), -1 + 1e-11 * draw(200, 8, seed=1)]
    check(1 + 1e-11 * draw(10, 8, seed=2), rows)


def test_one_row_and_fewer_groups_than_asked_for() -> None:
    result = check(draw(5, 3), draw(1, 3, seed=1), 2)
    assert (result.rows[:, 1] == -1).all() and np.isinf(result.distances[:, 1]).all()
    check(draw(5, 3), draw(10, 3, seed=1), 3, np.arange(10) % 2)


def test_samples_equal_to_training_rows_have_the_distance_zero() -> None:
    rows = draw(300, 50).astype(np.float32)
    result = check(rows[::7], rows)
    assert (result.distances[:, 0] == 0).all()


def test_samples_very_far_from_the_rows() -> None:
    check(np.concatenate([draw(20, 20) * size for size in (1e2, 1e5, 1e9, 1e30)]), draw(200, 20, seed=1))


def test_samples_that_are_not_finite_have_no_neighbours() -> None:
    samples = draw(4, 6)
    samples[1, 2], samples[3, 0] = np.nan, np.inf
    result = Nearest(draw(30, 6)).search(samples)
    assert (result.rows[[1, 3]] == -1).all() and (result.rows[[0, 2]] >= 0).all()
    assert len(Nearest(draw(30, 6)).search(samples[:0]).rows) == 0


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32])
def test_tensors(kind: torch.dtype) -> None:
    rows, samples = draw(200, 12), torch.from_numpy(draw(30, 12, seed=1)).to(kind).requires_grad_()
    result = Nearest(rows).search(samples)
    np.testing.assert_array_equal(result.rows, brute_force(samples.detach().double().numpy(), rows, 2)[1])


@pytest.mark.parametrize("fast", [False, True])
def test_tiles_and_the_processor_do_not_change_results(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, samples, groups = draw(700, 20), draw(60, 20, seed=1), np.arange(700) // 2
    rows[300:400] = rows[0] * (1 + 1e-7 * rows[300:400])  # some need the second pass
    samples[:5] = rows[0]
    whole = Nearest(rows, groups, [lambda x: -x]).search(samples, 3)
    if not fast:
        monkeypatch.setattr(closeness, "has_fast_bfloat16", lambda: False)
    for name, value in (("TILES", {"cpu": 5000}), ("PRODUCTS", {"cpu": 1000}), ("SLICE", 2000), ("PAIRS", 100)):
        monkeypatch.setattr(nearest, name, value)
    monkeypatch.setattr(closeness, "ROWS", 500)
    tiled = Nearest(rows, groups, [lambda x: -x]).search(samples, 3)
    assert whole.second_pass and tiled.second_pass
    np.testing.assert_array_equal(tiled.rows, whole.rows)
    np.testing.assert_array_equal(tiled.distances, whole.distances)


@pytest.mark.parametrize("spread", [1.0, 1e-3])
@pytest.mark.parametrize("fast", [False, True])
def test_the_bound_is_never_below_the_true_closeness(
    spread: float, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fast:
        monkeypatch.setattr(closeness, "has_fast_bfloat16", lambda: False)
    rows = torch.from_numpy(draw(1, 100) + spread * draw(200, 100, seed=1))
    samples = torch.cat([rows[:40], torch.from_numpy(draw(40, 100, seed=2))])
    frame = closeness.Frame.of(rows)
    s, y = ((values - frame.centre) * frame.scale for values in (samples, rows))
    true = s @ y.T - y.square().sum(1) / 2
    factor, _ = closeness.sample_factor(samples, frame, torch.bfloat16)
    bound = closeness.closeness(factor, closeness.row_factor(rows, frame, torch.bfloat16)).double()
    if fast and closeness.has_fast_bfloat16():
        bound = bound + bound.abs() * closeness.OUTPUT
    assert (bound >= true).all()
    assert (bound - true <= 0.03 * (s.norm(dim=1)[:, None] + y.norm(dim=1)) * y.norm(dim=1)).all(), "and not idle"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_cuda_tensors_are_searched_there() -> None:
    rows, samples, groups = draw(3000, 300), draw(100, 300, seed=1), np.arange(3000) // 3
    searched = Nearest(rows, groups, [lambda x: x[:, ::-1]])
    there, here = searched.search(torch.from_numpy(samples).cuda(), 3), searched.search(samples, 3)
    np.testing.assert_array_equal(there.rows, here.rows)
    np.testing.assert_allclose(there.distances, here.distances, rtol=1e-13)


def test_errors_name_the_argument() -> None:
    with pytest.raises(UserError, match="rows: shape"):
        Nearest(np.zeros((0, 3)))
    with pytest.raises(UserError, match="NaN"):
        Nearest(np.full((2, 2), np.nan))
    with pytest.raises(UserError, match="groups: shape"):
        Nearest(draw(3, 2), np.zeros(2, dtype=int))
    with pytest.raises(UserError, match="samples: shape"):
        Nearest(draw(3, 2)).search(draw(3, 4))
    with pytest.raises(UserError, match=r"variants: .*shape"):
        Nearest(draw(3, 2), variants=[lambda x: x[:, :1]]).search(draw(3, 2))


def images(n: int, seed: int = 0) -> Array:
    """Image-like rows (n, 1, 16, 16): sums of a few smooth patterns."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(0, 1, 16), np.linspace(0, 1, 16))
    waves = rng.uniform(0.5, 3, (n, 6, 2, 1, 1))
    phases = rng.uniform(0, 2 * np.pi, (n, 6, 1, 1))
    return np.cos(2 * np.pi * (waves[:, :, 0] * x + waves[:, :, 1] * y) + phases).sum(1)[:, None]


def same_groups(groups: Array, expected: Array) -> bool:
    return bool(((groups[:, None] == groups) == (expected[:, None] == expected)).all())


@pytest.mark.parametrize("copies", [2, 5])
def test_noisy_copies_are_one_group(copies: int) -> None:
    rows = np.concatenate([images(200)] * copies)
    rows += 0.05 * draw(*rows.shape)
    order = np.random.default_rng(1).permutation(len(rows))
    groups = near_duplicates(rows[order])
    assert same_groups(groups, order % 200) and set(groups) == set(range(200))


def test_rows_without_duplicates_are_their_own_groups() -> None:
    for rows in (images(400), draw(400, 64), draw(400, 8)):
        np.testing.assert_array_equal(near_duplicates(rows), np.arange(400))


@pytest.mark.parametrize("entries", [1, 2, 3, 5])
def test_chance_groups_are_rare_in_few_dimensions(entries: int) -> None:
    embedded = draw(2000, entries) @ draw(entries, 40, seed=1)
    assert 2000 - len(set(near_duplicates(embedded))) <= 4  # with a ratio of 1/3: about 400, 110, 30, 4


@pytest.mark.parametrize("entries", [1, 2, 8, 64])
def test_the_dimension_of_rows_is_estimated(entries: int) -> None:
    distances = other_rows(np.random.default_rng(0).uniform(size=(3000, entries)), 17)[1]
    assert 0.5 * entries < dimension(distances, 10**6) < 1.2 * entries


def test_equal_rows_are_one_group_however_many() -> None:
    rows = np.concatenate([np.repeat(draw(1, 8), 40, axis=0), draw(50, 8, seed=1)])
    assert same_groups(near_duplicates(rows), np.r_[np.zeros(40, dtype=int), np.arange(1, 51)])
    assert near_duplicates(draw(1, 3)).tolist() == [0] and near_duplicates(draw(2, 3)).tolist() == [0, 1]
    assert near_duplicates(np.zeros((2, 3))).tolist() == [0, 0]
