"""What a wrong number would hide behind: units, percentiles, settings, orders, drawings."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from ideals import PARITY, diffusion, life, measure_view
from test_layers import BELOW
from test_sample_views import History, diffusion_train

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks
from twoclocks.dissection import Models, dissect
from twoclocks.dissection.bootstrap import band
from twoclocks.dissection.cache import MEASURING, key_of
from twoclocks.dissection.execution import choose_views
from twoclocks.dissection.subject import RunSubject
from twoclocks.dissection.view import critical, order_words
from twoclocks.dissection.views.basin import Basin, BasinProbe
from twoclocks.dissection.views.field import Field, FieldProbe
from twoclocks.dissection.views.groups import GroupsProbe
from twoclocks.dissection.views.positions import ends_of_pieces
from twoclocks.dissection.views.raster import Raster
from twoclocks.dissection.views.spectrum import Spectrum
from twoclocks.dissection.views.trajectories import quartiles
from twoclocks.objectives import EDM, OBJECTIVES, FixedNoise
from twoclocks.oracles import cube_floor
from twoclocks.report.drawings import DRAWINGS
from twoclocks.report.drawings.film import common_pieces, shoot
from twoclocks.report.drawings.parts import figure_of
from twoclocks.runs import Run, RunSettings, load_settings
from twoclocks.runs.size import size_of


def scalar_latin() -> RunSettings:
    """Rows of four symbols, evenly spaced from −1 to 1: the unit of σ is a third."""
    change = {**PARITY, "rule": {"name": "row_latin", "side": 4}, "encoding": "scalar", "evaluation": {"samples": 200}}
    return load_settings("demo", {**change, "clocks": {**PARITY["clocks"], "memory_threshold": 0.6}})


def test_noise_scales_are_measured_by_the_distance_of_symbols() -> None:
    subject = life(scalar_latin(), ["cube"])
    assert subject.unit == pytest.approx(1 / 3)
    spectrum = measure_view(subject, "spectrum", levels=5, rows=400, sigma_min=0.3, sigma_max=3.0, band=[0.3, 3.0])
    assert spectrum.sigmas[0] == pytest.approx(0.1) and spectrum.band == pytest.approx((0.1, 1.0))
    for level, sigma in enumerate(spectrum.sigmas):
        exact = cube_floor(subject.rule, float(sigma), encoding=subject.encoding)  # type: ignore[arg-type]
        assert spectrum.floor[0, level] == pytest.approx(exact.loss, abs=0.02)
    field, basin = Field(sigmas=(0.3, 0.9)), Basin(sigmas=(0.3, 0.9), anchors=5)
    assert FieldProbe(field, subject).inputs[1].unique().tolist() == pytest.approx([0.1, 0.3])
    assert BasinProbe(basin, subject).inputs[1].unique().tolist() == pytest.approx([0.1, 0.3])
    for view in ("field", "basin"):
        assert measure_view(subject, view, sigmas=[0.3, 0.9]).sigmas.tolist() == pytest.approx([0.1, 0.3])
    assert critical(np.array([0.1, 0.2, 0.6]), unit=1 / 3) == 1 and critical(np.array([0.1, 0.2, 0.6]), unit=1.0) == 2


def test_bands_are_as_wide_as_the_scatter_of_means() -> None:
    values = np.random.default_rng(0).normal(size=(400, 3))
    for low, high, width in ((2.5, 97.5, 3.92), (5, 95, 3.29)):
        ends = band(values, 0, low, high, resamples=4000)
        assert np.allclose(ends[1] - ends[0], width * values.std(axis=0) / 20, rtol=0.08)


def test_basins_use_the_bands_they_promise() -> None:
    subject = life(diffusion(), ["rule"])
    view = Basin(sigmas=(0.5,), anchors=6, points=20, resamples=4000)
    rng = np.random.default_rng(1)
    shape = (1, 1, 3, 300, 20)
    measurements = {"match": rng.random(shape) < 0.9, "hamming": np.zeros(shape), "l2": rng.normal(size=shape)}
    info = view.info(subject, [10], {"match": np.ones((3, 1, 3, 300, 20))}, measurements)
    assert np.allclose((info.high["l2"] - info.low["l2"]).mean(), 3.29 / math.sqrt(300), rtol=0.05)
    single = info.width_high - info.width_low
    reach = np.cumprod(measurements["match"][..., view.t() > 0], axis=-1).sum(axis=-1) * 0.1
    assert np.allclose(single, 3.92 * reach.std(axis=3) / math.sqrt(300), rtol=0.15)


def test_settings_of_the_field_are_used() -> None:
    subject = life(diffusion(), ["rule"])
    probe = FieldProbe(Field(anchor=3, margin=0.1), subject)
    assert torch.equal(probe.corners[0], subject.train[3])
    assert probe.axes[0][0] == pytest.approx(-0.1 * probe.length)
    assert probe.axes[0][-1] == pytest.approx(1.1 * probe.length)


def test_the_approach_is_that_of_new_samples_and_needs_enough_of_them() -> None:
    rule, train = diffusion().rule, diffusion_train()
    known = {tuple(row) for row in train.tolist()}
    new = rule.sample(900, seed=5)
    new = new[[tuple(row) not in known for row in new.tolist()]][:600]
    half = torch.cat([train.repeat(100, 1), new])  # copies are no approach
    info = measure_view(History({1: half, 2: half, 3: half}), "approach", departure=0.2)
    assert info.onset is not None and not info.onset.seen
    few = torch.cat([train.repeat(60, 1), new[:10]])
    assert measure_view(History({1: few, 2: few}), "approach").onset is None
    clocks = Clocks(Onset(1, 2, "observed"), Onset(300, 500, "observed"))
    early = replace(info, clocks=clocks, onset=Onset(100, 120, "observed"))
    assert early.lead == pytest.approx(math.sqrt(300 * 500) / math.sqrt(100 * 120))


def test_leads_and_orders_point_the_right_way() -> None:
    info = measure_view(life(diffusion(), ["cube"] * 2 + ["rule"] * 2 + ["memory"] * 2), "spectrum", levels=6, rows=40)
    clocks = Clocks(Onset(100, 200, "observed"), Onset(300, 400, "observed"))
    assert all(lead > 1 for lead in replace(info, clocks=clocks).leads().values())
    here = Onset(10, 20, "observed")
    assert order_words(here, Onset(20, 40, "observed"), "x").endswith("before x (20–40)")
    assert "not certain" in order_words(here, Onset(15, 40, "observed"), "x")
    assert "after" in order_words(Onset(40, 50, "observed"), Onset(15, 40, "observed"), "x")
    noise = replace(info, gap=np.full_like(info.gap, 0.1), gap_error=np.full_like(info.gap, 0.05))
    assert noise.peak() is None


def test_coverage_counts_as_many_samples_as_are_asked_for() -> None:
    subject = History({1: diffusion_train()})
    found = GroupsProbe(subject).summarise(subject.train, 1)
    groups = {tuple(group) for row in subject.train.tolist() for group in zip(*[iter(row)] * 3, strict=True)}
    first = set(zip(*[iter(subject.train[0].tolist())] * 3, strict=True))
    assert found["coverage"][0] == pytest.approx(len(first) / len(groups))


def test_windows_include_both_ends_and_noises_without_copies_come_by_validity() -> None:
    rule, train = diffusion().rule, diffusion_train()
    known = {tuple(row) for row in train.tolist()}
    valid = next(row for row in rule.sample(50, seed=1) if tuple(row.tolist()) not in known)
    broken = valid.clone()
    broken[0] = 1 - broken[0]
    rows = [
        torch.stack(list(row)) for row in ((broken, valid, broken), (broken, valid, valid), (broken, valid, train[0]))
    ]
    info = measure_view(History({10: rows[0], 20: rows[1], 30: rows[2]}), "raster", windows=[10, 20])
    assert (info.windows[0].first, info.windows[0].last, info.windows[0].counts.sum()) == (10, 20, 3)
    assert info.order.tolist() == [2, 1, 0]
    assert Raster().interprets == ("windows",)


def test_positions_are_numbered_from_one_and_pieces_end_at_their_last(tiny_gpt: Run) -> None:
    views = choose_views(["positions"], {"positions": {"departure": 9.0}})
    found: Any = dissect(RunSubject(tiny_gpt), views).infos["positions"]
    assert found.numbers()["determined"] == [2, 4, 6, 8]
    assert not any(onset.seen for onset in found.memory_onsets)
    sudoku = Models(load_settings("demo-gpt", {"rule": {"name": "sudoku"}, "data": {"n": 9}}), {})
    assert ends_of_pieces(sudoku).tolist() == [5, 11, 17, 23, 29, 35]


def test_quartiles_are_quartiles() -> None:
    sigmas = np.array([8.0, 4.0, 2.0, 1.0, 0.5])
    assert quartiles(np.array([[0, 1, 2, 3, 4, -1], [-1] * 6]), sigmas)[0].tolist() == [1.0, 2.0, 4.0]
    assert np.isnan(quartiles(np.array([[-1]]), sigmas)).all()


def test_keys_know_the_run_and_the_code_of_every_folder_that_measures(tiny_dit: Run) -> None:
    subject, view = RunSubject(tiny_dit), choose_views(["raster"])["raster"]
    before = key_of(view, subject, 60)
    subject.settings = replace(subject.settings, data=replace(subject.settings.data, seed=7))
    assert key_of(view, subject, 60) != before
    around = {"clocks", "store", "training", "runs"}  # they bring the numbers, and change none
    assert set(MEASURING) >= (BELOW["dissection"] - around) | {"kernels", "dissection"}


def test_size_counts_what_is_kept() -> None:
    few, many = (load_settings("demo", {"evaluation": {"keep_samples": keep}}) for keep in (10, 100))
    assert size_of(many).whole - size_of(few).whole == len(few.schedule) * 90 * (24 + 8)


def test_films_run_forwards() -> None:
    figure = figure_of(1, 1)
    title = figure.suptitle(" ")
    film = shoot(figure, [1, 2, 3], lambda index: title.set_text(f"picture {index}")).named("why")
    assert [re.findall("picture .", drawing) for drawing in film.drawings] == [[f"picture {k}"] for k in range(3)]
    packed = json.loads(zlib.decompress(base64.b64decode(film.packed())))
    assert packed["steps"] == [1, 2, 3] and len(packed["fixed"]) == 2  # one piece changes
    for drawing, own in zip(film.drawings, packed["changing"], strict=True):
        assert drawing == packed["fixed"][0] + own[0] + packed["fixed"][1]


def test_films_whose_drawings_differ_in_their_parts_are_whole() -> None:
    assert common_pieces(["<a/>", "<a/><b/>"]) == (["", ""], [["<a/>"], ["<a/><b/>"]])


def test_the_raster_is_drawn_in_its_order_and_its_matrices_from_row_to_column() -> None:
    info = measure_view(life(diffusion(), ["cube", "rule", "memory"]), "raster")
    figure = DRAWINGS.get("raster")().draw(info)
    drawn = next(axis.collections[0] for axis in figure.axes if "noises, by" in axis.get_ylabel())
    assert np.array_equal(np.asarray(drawn.get_array()).reshape(300, 3), info.states[:, info.order].T)
    axis = next(axis for axis in figure.axes if axis.get_ylabel() == "from")
    for text in axis.texts:
        column, row = text.get_position()
        value = info.windows[0].markov[int(row), int(column)]
        assert text.get_text() == (" " if math.isnan(value) else f"{value:.2f}")


@pytest.mark.parametrize(
    ("confidence", "words"), [(0.9, " with 90% confidence"), (0.975, " with 97.5% confidence"), (0, "")]
)
def test_sentences_name_the_confidence_of_the_clocks(confidence: float, words: str) -> None:
    settings = diffusion({**PARITY, "clocks": {"sustain": 1, "confidence": confidence}})
    subject = life(settings, ["cube"] * 2 + ["rule"] * 2 + ["memory"] * 2)
    spectrum = measure_view(subject, "spectrum", levels=6, rows=40)
    assert f"In the band the held-out loss exceeds the training loss{words} between steps 40 and 50" in " ".join(
        spectrum.sentences()
    )
    approach = replace(measure_view(subject, "approach"), onset=Onset(10, 20, "observed"))
    assert f"come nearer than chance{words} between steps 10 and 20" in approach.sentences()[-1]


class Narrow(EDM):
    """A denoiser for a few noise scales only."""

    def sigma_range(self) -> tuple[float, float]:
        return 0.1, 5.0


def test_views_ask_the_objective_for_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    names, settings = ["basin", "field", "spectrum", "trajectories"], diffusion()
    fixed = replace(settings, objective=FixedNoise(sigma=0.25))
    refused = {name: str(view.refusal(fixed)) for name, view in choose_views(names).items()}
    for name in ("basin", "field", "spectrum"):
        assert refused[name].startswith("objective fixed_noise has a denoiser at σ = 0.25 only"), name
    assert refused["trajectories"] == "objective fixed_noise does not sample along falling noise scales"
    monkeypatch.setitem(OBJECTIVES._members, "narrow", Narrow)
    narrow = replace(settings, objective=Narrow(sigma_max=5.0, sigma_min=0.1))
    refused = {name: view.refusal(narrow) for name, view in choose_views(names).items()}
    assert refused == {**dict.fromkeys(names), "spectrum": refused["spectrum"]}
    assert refused["spectrum"] == ("objective narrow has a denoiser from σ = 0.1 to 5; this view needs 0.02 to 20")
    assert Spectrum(sigma_min=0.1, sigma_max=5.0, levels=9).refusal(narrow) is None
