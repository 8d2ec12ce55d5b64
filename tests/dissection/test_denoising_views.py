"""Spectrum, field, basin and trajectories of the oracles themselves: a wrong sign or axis cannot pass."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from ideals import PARITY, diffusion, life, measure_view, networks

from twoclocks.data.sets import training_set
from twoclocks.dissection import Models, dissect
from twoclocks.dissection.anchors import Surroundings
from twoclocks.dissection.execution import choose_views
from twoclocks.dissection.views.basin import LINES, half_widths
from twoclocks.dissection.views.trajectories import decided
from twoclocks.objectives import sample
from twoclocks.oracles import cube_floor, empirical_floor, rule_floor
from twoclocks.rules import RULES
from twoclocks.runs import load_settings

ALL = ("cube", "rule", "memory")


@pytest.fixture(scope="module")
def ideals() -> Models:
    return life(diffusion(), ALL)


def test_every_oracle_is_its_own_floor_and_nothing_of_the_others(ideals: Models) -> None:
    info = measure_view(ideals, "spectrum", levels=12, rows=200)
    assert info.oracles == ALL
    for step, name in enumerate(ALL):
        assert info.distance[step, ALL.index(name)].max() < 1e-5
        assert np.allclose(info.loss[step], info.ideal[ALL.index(name)], atol=1e-5)
        others = [k for k in range(3) if k != step]
        assert info.distance[step, others].max(axis=(1, 2)).min() > 0.05
        chosen = info.nearest[step][info.nearest[step] >= 0]
        assert len(chosen) >= 4 and (chosen == step).all()
    assert np.allclose(info.rule_learned[:2], [0, 1], atol=1e-3) and info.rule_learned[2] < -0.5
    assert np.allclose(info.memory_learned[1:], [0, 1], atol=1e-3) and info.memory_learned[0] < -0.2


def test_ideal_denoisers_find_every_array_equally_hard(ideals: Models) -> None:
    """With noise as seen from each bit, cube and rule have no gap to the last digit; memory's has the right sign."""
    info = measure_view(ideals, "spectrum", levels=9, rows=50)
    assert np.abs(info.gap[:2]).max() < 1e-5
    assert np.abs(info.of("cube")[0] - info.of("train")[0]).max() < 1e-5
    level = int(np.abs(np.log(info.sigmas)).argmin())
    assert info.gap[2, level] > 0.3 and info.of("cube")[1, level] - info.of("train")[1, level] > 0.05
    assert info.peak()[1] > 0.3 and info.peak()[2] == 30


def test_floors_are_those_of_the_oracles_and_the_distance_obeys_pythagoras(ideals: Models) -> None:
    info = measure_view(ideals, "spectrum", levels=5, rows=3000, sigma_min=0.3, sigma_max=3.0, band=[0.4, 2.0])
    rule, train = ideals.rule, ideals.train
    for level, sigma in enumerate(info.sigmas):
        exact = cube_floor(rule, sigma), rule_floor(rule, sigma), empirical_floor(train, sigma)
        for oracle, floor in enumerate(exact):
            assert info.floor[oracle, level] == pytest.approx(floor.loss, abs=5 * floor.error + 0.01)
    # On noisy training samples E‖D − D*‖² = loss of D − loss of D*, for D* the ideal denoiser of the training set.
    excess = info.loss[:, 0] - info.ideal[2, 0]
    assert np.allclose(info.distance[:, 2, 0], excess, atol=0.02)


def test_loss_clocks_strike_when_the_ideals_change() -> None:
    phases = ["cube"] * 3 + ["rule"] * 3 + ["memory"] * 3
    info = measure_view(life(diffusion(), phases), "spectrum", levels=8, rows=100)
    assert (info.rule_clock.lower, info.rule_clock.upper) == (30, 40)
    assert (info.memory_clock.lower, info.memory_clock.upper) == (60, 70)
    sigma, first = info.first_split
    assert (first.lower, first.upper) == (60, 70) and info.sigmas[0] <= sigma <= 3
    by_heart = measure_view(life(diffusion(), ["cube"] * 3 + ["memory"] * 3), "spectrum", levels=8, rows=100)
    assert by_heart.memory_clock.upper == 40 and not by_heart.rule_clock.seen  # memory alone is no rule
    never = measure_view(life(diffusion(), ["cube"] * 4), "spectrum", levels=8, rows=100)
    assert not never.rule_clock.seen and not never.memory_clock.seen and never.first_split is None
    assert never.peak() is None and any("do not differ by more" in sentence for sentence in never.sentences())


def test_the_plane_has_its_corners_where_geometry_puts_them(ideals: Models) -> None:
    info = measure_view(ideals, "field", grid=15)
    half = math.sqrt(2)
    assert info.hamming == 2
    assert np.allclose(info.corners, [[0, 0], [2 * half, 0], [half, half], [half, -half]], atol=1e-6)


def test_basins_on_the_plane_are_the_oracles(ideals: Models) -> None:
    info = measure_view(ideals, "field", grid=41, sigmas=[0.3, 0.5, 1.0])
    cube, rule, memory = info.learned.shares
    assert np.allclose(cube, [0.25, 0.25, 0.25, 0.25, 0], atol=0.02)
    assert np.allclose(rule[:, 0], rule[:, 1], atol=0.02) and np.allclose(rule[:, 2], rule[:, 3], atol=0.02)
    assert (rule[:, 2] < 0.15).all() and (rule[:, 0] > 0.4).all()
    assert (memory[:, 0] > 0.9).all() and (memory[:, 1:4] < 0.05).all()
    assert np.allclose(info.ideal.shares, info.learned.shares, atol=0.03)


def test_pull_and_arrows_point_to_the_attractors(ideals: Models) -> None:
    info = measure_view(ideals, "field", grid=41, sigmas=[0.4])
    x, y = info.axes

    def at(values: np.ndarray, place: np.ndarray) -> np.ndarray:
        return values[int(np.abs(y - place[1]).argmin()), int(np.abs(x - place[0]).argmin())]

    cube, rule, memory = info.learned.pull[:, 0]
    a, b, c, d = info.corners
    assert at(cube, a) == pytest.approx(-1, abs=0.02) and at(cube, b) == pytest.approx(1, abs=0.02)
    assert abs(at(cube, c)) < 0.02 and abs(at(cube, d)) < 0.02
    assert at(memory, b) == pytest.approx(-1, abs=0.02) and at(rule, b) == pytest.approx(1, abs=0.05)
    arrows = info.learned.arrows[0, 0]
    near = 0.5 * (b - a) / np.linalg.norm(b - a)
    assert at(arrows, a + near)[0] < 0 < at(arrows, b - near)[0]  # back to the nearer corner
    up = np.array([0.0, 0.5])
    assert at(arrows, c - up)[1] > 0 > at(arrows, c + up)[1]
    assert at(info.learned.arrows[2, 0], b)[0] < 0  # memory draws the unseen sample away
    here = np.array([x[9], y[17]])  # Tweedie against the logarithm of the density of the cube, by hand
    bits = {k: torch.tensor(v) for k, v in {"u": here[0], "v": here[1]}.items()}
    u = (
        (1 - (bits["u"] + bits["v"]) / math.sqrt(2)).requires_grad_(),
        (1 - (bits["u"] - bits["v"]) / math.sqrt(2)).requires_grad_(),
    )
    density = sum(torch.logsumexp(torch.stack([-((w - 1) ** 2), -((w + 1) ** 2)]) / (2 * 0.4**2), 0) for w in u)
    gradient = np.array([float(g) for g in torch.autograd.grad(density, u)])  # along the two edges, from x_a outwards
    along, across = -gradient.sum() / math.sqrt(2), -(gradient[0] - gradient[1]) / math.sqrt(2)
    assert np.allclose(arrows[17, 9], [along, across], rtol=1e-3, atol=1e-3)
    rest = 10 * (math.tanh(1 / 0.4**2) - 1) ** 2 / 0.4**4  # the ten other bits, at ±1
    assert info.learned.score[0, 0, 17, 9] == pytest.approx(math.sqrt((gradient**2).sum() + rest), rel=1e-3)


def test_half_widths_of_the_ideals_are_those_of_theory(ideals: Models) -> None:
    sigmas = [0.6, 0.9]
    info = measure_view(ideals, "basin", sigmas=sigmas, anchors=6, points=200)
    broken, unseen, training = (LINES.index(name) for name in ("rule-breaking", "valid, unseen", "training"))
    cube, rule, memory = info.width
    assert np.allclose(cube, 0.5, atol=1e-9)
    for level, sigma in enumerate(sigmas):
        # On the line to a flipped bit: (2t − 1)/σ² = atanh(tanh(1/σ²)^(G − 1)), with G = 3.
        reach = (1 + sigma**2 * math.atanh(math.tanh(1 / sigma**2) ** 2)) / 2
        assert rule[level, broken] == pytest.approx(reach, abs=0.011)
    assert np.allclose(rule[:, unseen], 0.5, atol=1e-9)
    assert (memory[:, [broken, unseen]] > 1.2).all()
    assert np.allclose(memory[:, training], 0.5, atol=0.12)
    assert np.allclose(info.ideal, info.width, atol=0.02)
    assert (info.capped[2, :, [broken, unseen]] > 0).any() and not info.capped[0].any()
    assert any("at least" in sentence for sentence in info.sentences())
    start = int(np.abs(info.t).argmin())
    assert np.allclose(info.mean["match"][1:, :, :, start], 1) and np.allclose(info.mean["hamming"][1:, :, :, start], 0)
    end = int(np.abs(info.t - 1).argmin())
    assert np.allclose(info.mean["hamming"][0, :, [broken, unseen], end], [[1], [2]])
    assert info.mean["l2"][0, 0, broken, end] == pytest.approx(2 * math.tanh(1 / 0.36), abs=0.3)


def test_half_widths_stop_at_the_first_break() -> None:
    t = np.array([-0.25, 0.25, 0.75, 1.25])
    match = np.array([[0, 1, 1, 0], [1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 0, 1]], dtype=bool)
    assert half_widths(match, t, end=1.5).tolist() == [1.0, 0.0, 1.5, 0.5, 0.5]


def test_paths_of_an_ideal_are_nearest_to_it_and_end_as_it_does(ideals: Models) -> None:
    info = measure_view(ideals, "trajectories", noises=60)
    for step in range(3):
        apart = info.nearest[step, :, 3] < 0.5
        assert apart.sum() >= 5 and (info.nearest[step, apart, step] > 0.5).all()
        assert not info.nearest[step][:, [k for k in range(3) if k != step]].any()
        assert info.distance[step, :, step].max() < 1e-4
    assert info.ended["valid"][1] > 0.99 and info.ended["copied"][2] > 0.99
    assert info.ended["valid"][0] < 0.5 and info.ended["copied"][1] < 0.2
    assert np.all(info.ended["settled"] == 1)
    for outcome in ("settled", "valid", "copied"):
        rows = info.quartiles[outcome]
        known = np.isfinite(rows[:, 0])
        assert (np.diff(rows[known], axis=1) >= 0).all()
    # A path that ends as a copy is one from some σ on, and what is a copy is valid: it cannot be decided sooner.
    assert info.quartiles["valid"][2, 1] >= info.quartiles["copied"][2, 1] > 0.3


def test_the_last_word_of_a_path_is_the_sample(ideals: Models) -> None:
    """The view samples as the sampler does: the same noise ends in the same state."""
    info = measure_view(ideals, "trajectories", noises=40)
    settings = ideals.settings
    for step, name in enumerate(ALL):
        decoded = ideals.samples(10 * (step + 1)).symbols[:40]
        assert info.ended["valid"][step] == pytest.approx(float(settings.rule.is_valid(decoded).double().mean()))
        copied = ideals.evaluator.copies.found(decoded).double().mean()
        assert info.ended["copied"][step] == pytest.approx(float(copied)), name


def test_decided_is_the_level_from_which_on_something_holds() -> None:
    holds = torch.tensor([[0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [0, 0, 0, 0, 1]]).bool()
    assert decided(holds).tolist() == [3, 0, -1, 4]


EXAMPLES = {
    "parity": {"length": 12, "group": 4},
    "exact_k": {"length": 9, "k": 4},
    "row_k": {"side": 4, "k": 2},
    "row_variable_k": {"side": 4, "ks": [1, 3]},
    "global_k": {"side": 4, "ks": [1, 2]},
    "latin": {"side": 5},
    "latin_cyclic": {"side": 5},
    "row_latin": {"side": 4},
    "sudoku": {"block_rows": 2, "block_cols": 3},
    "sudoku_cyclic": {"block_rows": 2, "block_cols": 3},
    "rhm": {"depth": 2, "branching": 2, "vocabulary": 4, "synonyms": 2, "rule_seed": 0},
    "code_book": {"length": 12, "group": 4, "seed": 0},
}


def test_every_rule_is_an_example_here() -> None:
    assert set(EXAMPLES) == set(RULES.names()) - {"free", "text", "images"}  # where nothing breaks a rule


@pytest.mark.parametrize("name", EXAMPLES)
def test_corners_are_what_they_are_called(name: str) -> None:
    rule = RULES.create(name, **EXAMPLES[name])
    train = training_set(rule, 20, seed=0)
    around = Surroundings(rule, train)
    found = 0
    for row in range(5):
        corners = around.corners(row)
        nearest = around.nearest_training(row)
        assert not torch.equal(nearest, train[row]) and any(torch.equal(nearest, other) for other in train)
        broken = around.broken_neighbour(train[row])
        if broken is not None:
            assert int((broken != train[row]).sum()) == 1 and not bool(rule.is_valid(broken[None]))
        if corners is None:
            continue
        found += 1
        assert torch.equal(corners.a, train[row]) and rule.is_valid(corners.stack()).tolist() == [
            True,
            True,
            False,
            False,
        ]
        assert not bool((train == corners.b).flatten(1).all(dim=1).any())
        assert bool((corners.a + corners.b == corners.c + corners.d).all())  # a parallelogram
        assert not bool(((corners.c != corners.a) & (corners.d != corners.a)).any())  # with right angles
    assert found >= 3


@pytest.mark.parametrize(
    ("name", "encoding"), [("latin", "one_hot"), ("row_latin", "scalar"), ("exact_k", "sign"), ("rhm", "one_hot")]
)
def test_denoising_views_hold_for_other_rules_and_encodings(name: str, encoding: str) -> None:
    """Also there each ideal is nearest to itself, the cube's basins are even and the rule's are the valid ones."""
    example = {"latin": {"side": 4}}.get(name, EXAMPLES[name])
    change = {**PARITY, "rule": {"name": name, **example}, "encoding": encoding, "data": {"n": 5}}
    change["clocks"] = {**PARITY["clocks"], "memory_threshold": 0.6}
    change["evaluation"] = {"samples": 200}
    subject = life(load_settings("demo", change), ALL)
    views = choose_views(
        ["spectrum", "field", "basin", "trajectories"],
        {
            "spectrum": {"levels": 6, "rows": 40},
            "field": {"grid": 21},
            "basin": {"anchors": 5},
            "trajectories": {"noises": 20},
        },
    )
    found = dissect(subject, views)
    assert not found.refused
    spectrum, field, basin = (found.infos[view] for view in ("spectrum", "field", "basin"))
    for step in range(3):
        assert spectrum.distance[step].mean(axis=(1, 2)).argmin() == step
        assert np.allclose(field.learned.shares[step], field.ideal.shares[step], atol=0.1)
        assert np.allclose(basin.width[step], basin.ideal[step], atol=0.12)
    level = 1
    assert field.learned.shares[1, level, 2:4].sum() < field.learned.shares[0, level, 2:4].sum()
    assert field.learned.shares[2, level, 0] > 0.8
    assert (basin.width[2, :, 0] >= basin.width[0, :, 0]).all()


def test_a_rule_without_an_oracle_has_no_floor_and_a_sentence_about_it() -> None:
    change = {
        **PARITY,
        "rule": {"name": "sudoku"},
        "encoding": "scalar",
        "data": {"n": 5},
        "evaluation": {"samples": 200},
    }
    settings = load_settings("demo", change)
    oracle = {10: settings.objective.network_of(cube_oracle(settings))}
    info = measure_view(Models(settings, oracle), "spectrum", levels=4, rows=8)
    assert info.oracles == ("cube", "memory") and info.rule_learned is None and info.memory_learned is None
    assert any("is not known" in sentence for sentence in info.sentences())


def cube_oracle(settings):  # type: ignore[no-untyped-def]
    from twoclocks.oracles import cube_denoiser

    return cube_denoiser(settings.rule, settings.encoding)


def test_samples_of_models_are_the_samplers(ideals: Models) -> None:
    settings = ideals.settings
    network = networks(settings)["rule"]
    noise = settings.objective.draw_noise(300, ideals.encoding.shape(ideals.rule), torch.Generator().manual_seed(0))
    decoded = ideals.encoding.decode(ideals.rule, sample(settings.objective, network, noise))
    assert settings.rule.is_valid(decoded.symbols).float().mean() > 0.99
    assert settings.rule.is_valid(ideals.samples(20).symbols).float().mean() > 0.99
