"""Views of real images: of ideal denoisers, whose results are known, with both objectives; and of trained networks."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ideals import measure_view
from matplotlib.image import imread
from torch import Tensor

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.settings import ClockSettings
from twoclocks.clocks.window import NO_RULE, Clocks
from twoclocks.data.sets import held_out, natural_held_out, training_set
from twoclocks.dissection import VIEWS, Models, dissect_run
from twoclocks.dissection.execution import choose_views
from twoclocks.dissection.image_anchors import neighbours_of
from twoclocks.dissection.loss_clocks import earliest_split, level_clocks
from twoclocks.dissection.views.spectrum import Spectrum
from twoclocks.oracles import empirical_denoiser, empirical_floor
from twoclocks.report.drawings import DRAWINGS, why_chapter
from twoclocks.report.image_strip import ImageStrips
from twoclocks.report.page import write_report
from twoclocks.report.pictures import data_url
from twoclocks.report.strip import strip_data
from twoclocks.runs import Run, RunSettings, load_settings, run
from twoclocks.testing import check_view

OBJECTIVES = {
    "edm": {"name": "edm", "sigma_data": 0.75, "sampler_steps": 12},
    "ddpm": {"name": "ddpm", "sampler_levels": 24},
}
APPLY = {"examples", "spectrum", "approach", "trajectories", "field", "basin"}
SMALL = {
    "spectrum": {"levels": 6, "rows": 8},
    "field": {"grid": 11, "sigmas": [0.5]},
    "basin": {"anchors": 5, "points": 8, "sigmas": [0.5], "resamples": 20},
    "trajectories": {"noises": 6},
}
RULES = re.compile(r"\b(rule|rules|cube|valid|invalid|symbols?|entries)\b")


def digits(objective: str, **change: Any) -> RunSettings:
    shared = {
        "data": {"n": 16},
        "training": {"steps": 30, "batch": 8, "learning_rate": 3e-3},
        "evaluation": {"samples": 100, "steps": [0, 10, 20, 30], "loss_rows": 16, "keep_samples": 20},
        "clocks": {"memory_threshold": 0.3, "sustain": 1, "confidence": 0.9},
    }
    return load_settings("images-small", {**shared, "objective": OBJECTIVES[objective], **change})


def memory_of(settings: RunSettings, rows: Tensor) -> Any:
    return settings.objective.network_of(empirical_denoiser(rows, settings.rule))  # type: ignore[attr-defined]


def life(settings: RunSettings, phases: list[str]) -> Models:
    """Networks that know the training images by heart, or 200 others, which are in neither split."""
    train = training_set(settings.rule, settings.data.n, settings.data.seed)
    others = settings.rule.reserved_images()[:200].long()  # type: ignore[attr-defined]
    known = {"memory": memory_of(settings, train), "others": memory_of(settings, others)}
    return Models(settings, {10 * (k + 1): known[name] for k, name in enumerate(phases)})


@pytest.fixture(params=["edm", "ddpm"])
def subject(request: pytest.FixtureRequest) -> Models:
    return life(digits(request.param), ["others", "memory"])


def root_mean_square(samples: Tensor, train: Tensor) -> Tensor:
    """Distance of every sample to every training image, pixels from −1 to 1."""
    return ((samples[:, None] - train[None]).double() / 127.5).flatten(2).square().mean(dim=2).sqrt()


def test_losses_by_noise_say_how_much_of_memory_a_model_has(subject: Models) -> None:
    info = measure_view(subject, "spectrum", levels=8, rows=300)
    assert info.oracles == ("memory",) and info.splits == ("train", "held_out") and not info.rule_clock.seen
    others, memory = info.memory_learned
    assert memory == pytest.approx(1, abs=1e-3) and abs(others) < 0.2
    known = np.isfinite(info.memory_share[1])
    assert known[info.in_band].all() and np.allclose(info.memory_share[1, known], 1, atol=0.01)
    assert info.distance[1].max() < 1e-4 and info.distance[0, 0, 0][info.in_band].min() > 1e-3
    for level, sigma in enumerate(info.sigmas):
        floor = empirical_floor(subject.train, sigma, rule=subject.rule)
        assert info.floor[0, level] == pytest.approx(floor.loss, abs=5 * floor.error + 0.01)
    assert info.numbers()["memory_share"][1] == pytest.approx(info.memory_share[1].tolist(), nan_ok=True)


def test_share_of_memory_is_the_way_from_the_held_out_loss_to_the_ideal(subject: Models) -> None:
    info = measure_view(subject, "spectrum", levels=5, rows=20)
    train, unseen, ideal = info.of("train")[0], info.of("held_out")[0], info.ideal[0, 0]
    share = info.memory_share[0]
    known = np.isfinite(share)
    assert known.any() and np.allclose((unseen - share * (unseen - ideal))[known], train[known])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_loss_clocks_strike_at_every_noise_level_when_memory_comes(objective: str) -> None:
    settings = digits(objective, data={"n": 64})
    info = measure_view(life(settings, ["others"] * 3 + ["memory"] * 3), "spectrum", levels=6, rows=100)
    assert info.splits == ("train", "held_out") and Spectrum(rows=100).rows_of(settings) == 64  # none is repeated
    assert info.memory_clock.lower <= 30 and info.memory_clock.upper == 40  # 64 images cannot exclude a gap of 5%
    assert info.first_split is not None and info.first_split[1].upper == 40
    seen = [one.upper for one in info.level_clocks if one.seen]
    assert len(info.level_clocks) == 6 and set(seen) == {40} and len(seen) >= 3
    never = measure_view(life(settings, ["others"] * 3), "spectrum", levels=6, rows=100)
    assert not never.memory_clock.seen and never.first_split is None


def test_distance_to_the_training_set_is_that_of_a_slow_search(subject: Models) -> None:
    info = measure_view(subject, "approach")
    unseen = natural_held_out(subject.rule, subject.train, subject.settings.data.seed)
    assert info.images and info.chance == pytest.approx(float(root_mean_square(unseen, subject.train).amin(1).mean()))
    for at, step in enumerate((10, 20)):
        nearest = root_mean_square(subject.samples(step).symbols, subject.train).amin(dim=1)
        assert info.mean[at, 0] == pytest.approx(float(nearest.mean()), abs=1e-5)
    assert info.number[1].tolist() == [100, 100, 0] and "no sample is new" in info.sentences()[0]
    assert info.mean[1, 0] < 0.05 < info.mean[0, 0]


@pytest.mark.parametrize(("before", "early"), [(["others"] * 3, True), ([], False)])
def test_examples_are_of_the_last_step_before_copying_and_of_the_end(before: list[str], early: bool) -> None:
    subject = life(digits("edm"), [*before, *["memory"] * 3])
    last = 10 * (len(before) + 3)
    subject.clocks = Clocks(NO_RULE, Onset(30, 40, "observed")) if early else None
    info = measure_view(subject, "examples", most=9)
    assert (
        info.images and info.is_early == early and [one.step for one in info.shown] == ([30, last] if early else [last])
    )
    for one in info.shown:
        drawn = subject.samples(one.step).symbols
        nearest = root_mean_square(drawn, subject.train)[:9].argmin(dim=1)
        assert np.array_equal(one.samples, drawn[:9].numpy()) and np.array_equal(one.nearest, subject.train[nearest])
    assert (
        info.shown[-1].copy_rate == 1 and info.shown[-1].copied.all() and (not early or info.shown[0].copy_rate < 0.3)
    )
    picture = DRAWINGS.get("examples")().draw(info)
    framed = [axis for axis in picture.axes if axis.spines["left"].get_linewidth() == 2]
    assert len(picture.axes) == 18 * len(info.shown) and len(framed) == sum(int(one.copied.sum()) for one in info.shown)


def test_paths_of_memory_end_as_copies_and_follow_its_ideal(subject: Models) -> None:
    info = measure_view(subject, "trajectories", noises=40)
    assert info.outcomes == ("settled", "copied") and info.copies is not None
    assert info.ended["copied"][1] == 1 and info.ended["copied"][0] < 0.3 and (info.ended["settled"] == 1).all()
    assert info.distance[1].max() < 1e-4 < 0.01 < info.distance[0].max()
    assert np.allclose(info.copies[1, :, 0], info.copies[1, :, 1]) and info.copies[1, 0, 0] == 0
    assert info.copies[1, -1, 0] == 1
    assert info.copies[0, -1].tolist() == pytest.approx([info.ended["copied"][0], 1], abs=0.1)  # at the same states
    for at, step in enumerate((10, 20)):  # the view samples as the sampler does
        copied = subject.evaluator.copies.found(subject.samples(step).symbols[:40])
        assert info.ended["copied"][at] == pytest.approx(float(copied.double().mean()))
    assert info.quartiles["copied"][1, 1] <= info.quartiles["settled"][1, 1]


def test_outputs_beyond_the_range_of_pixels_are_limited(subject: Models) -> None:
    """σε̂ of an untrained DDPM is tens of thousands at the first level, which says nothing about memory."""
    wild = subject.settings.objective.network_of(lambda y, sigma: torch.full_like(y, 1e4))  # type: ignore[attr-defined]
    info = measure_view(Models(subject.settings, {1: wild}), "trajectories", noises=4)
    assert info.distance.max() <= 4


def test_every_noise_level_has_its_own_clock() -> None:
    rng = np.random.default_rng(0)
    lower = 1 + 0.01 * rng.standard_normal((6, 3, 50))
    upper = lower + 0.001 * rng.standard_normal(lower.shape)
    upper[2:, 1] += 0.5
    upper[4:, 2] += 0.5
    found = level_clocks(np.arange(10, 70, 10), upper, lower, 0.05, ClockSettings(sustain=1))
    assert [one.seen for one in found] == [False, True, True] and [one.upper for one in found[1:]] == [30, 50]
    assert earliest_split(np.array([0.1, 0.5, 2.0]), found) == (0.5, found[1])


def test_neighbours_are_those_of_a_slow_search(subject: Models) -> None:
    images, unseen, other = neighbours_of(subject, torch.tensor([3, 7]))
    pool = natural_held_out(subject.rule, subject.train, subject.settings.data.seed)
    assert pool is not None
    far = root_mean_square(images, subject.train)
    far[[0, 1], [3, 7]] = torch.inf
    assert torch.equal(images, subject.train[[3, 7]]) and torch.equal(other, subject.train[far.argmin(dim=1)])
    assert torch.equal(unseen, pool[root_mean_square(images, pool).argmin(dim=1)])


def test_the_plane_goes_through_the_images_and_memory_divides_it_by_distance(subject: Models) -> None:
    info = measure_view(subject, "field", grid=31, sigmas=[0.1], anchor=2)
    a, unseen, b = (subject.encode(one)[0].double().flatten() for one in neighbours_of(subject, torch.tensor([2])))
    corners = torch.tensor(info.corners)
    assert info.corners.shape == (3, 2) and torch.allclose(
        torch.pdist(corners), torch.pdist(torch.stack([a, b, unseen]))
    )
    assert np.array_equal(info.pictures[2].ravel(), ((unseen + 1) * 127.5).round().numpy())
    # Without noise, memory returns the nearest training image: count grid points in the triangle by hand.
    x, y = np.meshgrid(*info.axes)
    (_, right, top) = info.corners
    v = y / top[1]
    u = (x - v * top[0]) / right[0]
    inside = (u > 1e-9) & (v > 1e-9) & (u + v < 1 - 1e-9)
    points = a + torch.tensor(u[inside])[:, None] * (b - a) + torch.tensor(v[inside])[:, None] * (unseen - a)
    nearest = torch.cdist(points, subject.encode(subject.train).double().flatten(1)).argmin(dim=1)
    row = int(root_mean_square(((b + 1) * 127.5).round()[None], subject.train.flatten(1)).argmin())
    shares = [float((nearest == 2).double().mean()), float((nearest == row).double().mean())]
    assert info.learned.shares[1, 0, :2].tolist() == pytest.approx(shares, abs=0.06)
    assert info.learned.shares[1, 0, 2] == 0 and np.allclose(info.learned.shares.sum(axis=2), 1)
    assert np.allclose(info.ideal.shares[0], info.learned.shares[1], atol=0.01)
    knows = memory_of(subject.settings, torch.cat([subject.train, neighbours_of(subject, torch.tensor([2]))[1]]))
    found = measure_view(Models(subject.settings, {1: knows}), "field", grid=31, sigmas=[0.1], anchor=2)
    assert found.learned.shares[0, 0, 2] > 0.1  # a model that knows the held-out image returns it


def test_basins_of_memory_end_where_another_training_image_is_nearer(subject: Models) -> None:
    info = measure_view(subject, "basin", sigmas=[0.05], anchors=6, points=100)
    assert info.lines == ("held-out", "training")
    encoded = subject.encode(subject.train).double().flatten(1)
    start, *ends = (subject.encode(one).double().flatten(1) for one in neighbours_of(subject, torch.arange(6)))
    for line, end in enumerate(ends):
        widths = []
        for row in range(6):
            t = torch.linspace(0, 1.5, 1501, dtype=torch.float64)[:, None]
            nearest = torch.cdist(start[row] + t * (end[row] - start[row]), encoded).argmin(dim=1)
            away = (nearest != row).nonzero()
            widths.append(float(t[away[0, 0]]) if len(away) else 1.5)
        assert info.width[1, 0, line] == pytest.approx(np.mean(widths), abs=0.03)
        assert info.ideal[0, 0, line] == pytest.approx(info.width[1, 0, line], abs=0.01)
    assert info.width[1, 0, 1] <= 0.51
    there = int(np.abs(info.t - 1).argmin())  # memory returns the other training image there
    images, _, other = neighbours_of(subject, torch.arange(6))
    apart = float(root_mean_square(images, other).diagonal().mean())
    assert info.mean["rms"][1, 0, 1, there] == pytest.approx(apart, abs=0.01)
    middle = int(np.abs(info.t).argmin())
    assert info.mean["rms"][1, 0, :, middle].max() < 0.02 and info.mean["match"][0, 0, :, middle].max() < 1


@pytest.fixture(scope="module", params=["edm", "ddpm"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    model = {"name": "unet2d", "width": 8, "multipliers": [1, 2], "blocks": 1, "attention": [4], "heads": 2}
    settings = digits(request.param, model=model)
    return run(settings, tmp_path_factory.mktemp("images") / request.param)


def test_every_view_of_a_trained_network_applies_or_says_why(trained: Run) -> None:
    chosen = choose_views(None, SMALL)
    for view in chosen.values():
        check_view(view, trained)
    found = dissect_run(trained, chosen)
    assert set(found.infos) == APPLY and set(found.refused) == set(VIEWS.names()) - APPLY
    assert all("\n" not in reason for reason in found.refused.values()) and "no rule" in found.refused["raster"]
    sections = why_chapter(found, "x").sections
    assert {part.name for part in sections} == APPLY
    for part in sections:
        labels = re.findall(r"<!-- (.*?) -->", part.figure)  # matplotlib writes the text of paths as comments
        assert labels or "<text" in part.figure
        said = [*part.sentences, *labels, re.sub("<[^>]*>", " ", part.figure)]
        assert not [text for text in said if RULES.search(text)], part.name


def picture(url: str) -> np.ndarray:
    return (imread(io.BytesIO(base64.b64decode(url.partition(",")[2])), format="png")[..., :3] * 255).round()


def test_pictures_are_the_pixels_in_grey_and_colour() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 7))
    assert np.array_equal(picture(data_url(pixels)), pixels.transpose(1, 2, 0))
    assert np.array_equal(picture(data_url(pixels[:1])), np.repeat(pixels[0, :, :, None], 3, axis=2))


def test_the_page_shows_samples_above_their_nearest_training_images(trained: Run, tmp_path: Path) -> None:
    page = write_report([trained], tmp_path / "page.html").read_text()
    assert page.count('alt="sample"') == page.count('alt="its nearest training image"')
    assert page.count('alt="sample"') == 16 * len(strip_data(trained).images) >= 4 * 16
    assert "uniform symbols" not in page and "breaks the rule" not in page and "d₁/d₂ is below 1/3" in page
    strips = ImageStrips(trained)
    train = strips.train
    unseen = held_out(trained.settings.rule, train, 3)
    near = (train[5] + (train[5] < 100) * 3)[None]
    strip = strips.nearest_first(7, torch.cat([unseen, near]), 2)
    assert (strip.step, strip.samples, len(strip.tiles)) == (7, 4, 2) and strip.tiles[0].copied and strip.copies >= 1
    assert np.array_equal(picture(strip.tiles[0].sample)[..., 0], near[0, 0].numpy())
    assert np.array_equal(picture(strip.tiles[0].original)[..., 0], train[5, 0].numpy())
    first = strips.strip("first", 0, unseen, 16)
    assert [tile.copied for tile in first.tiles] == [False] * 3 and first.tiles[0].ratio > 1 / 3
