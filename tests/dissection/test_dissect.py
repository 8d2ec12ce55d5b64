"""Dissecting a run directory: what is read, what is cached, what is measured again, and errors for wrong input."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import SMALL_MODEL, TINY

from twoclocks.cli import main
from twoclocks.core.errors import UserError
from twoclocks.dissection import VIEWS, Dissection, dissect_run
from twoclocks.dissection.cache import code_of_package, key_of
from twoclocks.dissection.execution import choose_views, known_dissection
from twoclocks.dissection.subject import RunSubject, Subject
from twoclocks.dissection.view import Probe, ViewError
from twoclocks.dissection.views.raster import Raster
from twoclocks.report import page as page_module
from twoclocks.report.drawings import DRAWINGS, WhyChapter, why_chapter
from twoclocks.report.page import write_report
from twoclocks.runs import Run, load_run, load_settings, run
from twoclocks.store import verify_tree
from twoclocks.testing import check_view

SMALL = {
    "spectrum": {"levels": 5, "rows": 4},
    "field": {"grid": 11, "sigmas": [0.5]},
    "basin": {"anchors": 5, "points": 8, "sigmas": [0.5], "resamples": 20},
    "trajectories": {"noises": 8},
}
PAGE_ORDER = (
    *("raster", "approach", "groups", "productions", "spectrum"),
    *("field", "basin", "trajectories", "positions"),
)
WORDS = [
    *("--spectrum.levels", "5", "--spectrum.rows", "4", "--field.grid", "11", "--field.sigmas", "[0.5]"),
    *("--basin.anchors", "5", "--basin.points", "8", "--trajectories.noises", "8"),
]


@pytest.fixture
def dit(tiny_dit: Run, tmp_path: Path) -> Run:
    """A copy, so that what one test remembers is not known to another."""
    shutil.copytree(tiny_dit.path, tmp_path / "dit", ignore=shutil.ignore_patterns("dissection"))
    return load_run(tmp_path / "dit")


@pytest.fixture
def gpt(tiny_gpt: Run, tmp_path: Path) -> Run:
    shutil.copytree(tiny_gpt.path, tmp_path / "gpt", ignore=shutil.ignore_patterns("dissection"))
    return load_run(tmp_path / "gpt")


def small(*names: str, **change: dict[str, object]) -> dict[str, object]:
    chosen = list(names) or VIEWS.names()
    settings = {**SMALL, **change}
    return choose_views(chosen, {name: settings[name] for name in chosen if name in settings})  # type: ignore[return-value]


def test_a_second_dissection_measures_nothing_and_gives_the_same(dit: Run) -> None:
    first = dissect_run(dit, small())
    second = dissect_run(dit, small())
    assert first.measured > 30 and second.measured == 0 and second.known == first.measured
    assert second.as_json() == first.as_json()
    assert verify_tree(dit.path)[0].intact and not verify_tree(dit.path)[0].harmless


@pytest.mark.parametrize("name", VIEWS.names())
@pytest.mark.parametrize("kind", ["tiny_dit", "tiny_gpt"])
def test_every_view_keeps_its_contract(name: str, kind: str, request: pytest.FixtureRequest) -> None:
    check_view(small(name)[name], request.getfixturevalue(kind))  # type: ignore[arg-type]


def test_the_contract_catches_views_that_break_it(tiny_dit: Run) -> None:
    @VIEWS.register("restless")
    @dataclass(frozen=True, kw_only=True)
    class Restless(Raster):
        def prepare(self, subject: Subject) -> Probe:
            probe = super().prepare(subject)
            noisy = {"states": np.random.default_rng().integers(0, 4, 20).astype(np.uint8)}
            object.__setattr__(probe, "measure", lambda step: noisy)
            return probe

    try:
        with pytest.raises(AssertionError, match="different numbers"):
            check_view(Restless(), tiny_dit)
    finally:
        VIEWS._members.pop("restless")


def test_what_the_raster_counts_is_what_the_metrics_say(dit: Run) -> None:
    info = dissect_run(dit, small("raster")).infos["raster"]
    columns = dit.metrics()
    assert info.steps.tolist() == columns["step"].tolist()
    kept = info.states.shape[1]
    assert kept == 20  # evaluation.keep_samples
    for row, step in enumerate(info.steps):
        _, outcome = dit.samples(int(step))
        between = outcome.distance > 0.5
        assert info.counts[row, 0] == int(between.sum())
        assert info.counts[row, 3] == int((outcome.copied & ~between).sum())


def test_changed_settings_are_measured_and_changed_readings_are_not(dit: Run) -> None:
    dissect_run(dit, small("spectrum", "basin"))
    again = dissect_run(dit, small("spectrum", "basin", spectrum={"levels": 6, "rows": 4}))
    assert again.measured == 6  # five checkpoints, and what does not change
    read = dissect_run(
        dit, small("spectrum", "basin", spectrum={"levels": 6, "rows": 4, "departure": 0.2, "band": [0.3, 1]})
    )
    assert read.measured == 0
    assert read.infos["spectrum"].band == (0.3, 1.0)


def test_keys_depend_on_all_that_is_measured(dit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    subject, view = RunSubject(dit), small("spectrum")["spectrum"]
    keys = {key_of(view, subject, step) for step in (None, 0, 60)}  # type: ignore[arg-type]
    assert len(keys) == 3
    keys.add(key_of(view, RunSubject(dit, precision="bfloat16"), 60))  # type: ignore[arg-type]
    keys.add(key_of(small("basin")["basin"], subject, 60))  # type: ignore[arg-type]
    monkeypatch.setattr("twoclocks.dissection.cache.code_of_package", lambda: "changed")
    keys.add(key_of(view, subject, 60))  # type: ignore[arg-type]
    assert len(keys) == 6
    monkeypatch.undo()
    raster = small("raster")["raster"]
    assert key_of(raster, RunSubject(dit, precision="bfloat16"), 60) == key_of(raster, subject, 60)  # type: ignore[arg-type]
    assert len(code_of_package()) == 64


def test_a_damaged_measurement_is_repeated(dit: Run) -> None:
    first = dissect_run(dit, small("field"))
    for number, path in enumerate(sorted((dit.path / "dissection").glob("*.measurement"))):
        data = bytearray(path.read_bytes())
        if number % 3 == 0:
            data[-1] ^= 1
        path.write_bytes(bytes(data) if number % 3 < 2 else b"")
    again = dissect_run(dit, small("field"))
    assert again.measured == 4 and again.as_json() == first.as_json()


def test_damaged_and_missing_checkpoints_are_left_out_and_named(dit: Run) -> None:
    weights = dit.directory.artifacts["weights"]
    weights.path(20).write_bytes(weights.path(20).read_bytes()[:-4])
    weights.path(40).unlink()
    found = dissect_run(dit, small("basin", "raster"))
    assert found.infos["basin"].steps.tolist() == [0, 5, 60] and len(found.infos["raster"].steps) == 5
    assert len(found.notes) == 2 and "is damaged" in found.notes[0] and "is missing" in found.notes[1]


def test_a_network_that_returns_nan_is_left_out_and_named(dit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = RunSubject.weights

    def broken(self: RunSubject, step: int) -> dict[str, torch.Tensor]:
        tensors = whole(self, step)
        return {name: value * np.nan if step == 40 else value for name, value in tensors.items()}

    monkeypatch.setattr(RunSubject, "weights", broken)
    found = dissect_run(dit, small("spectrum", "field", "basin", "trajectories"))
    assert all(40 not in info.steps and len(info.steps) == 4 for info in found.infos.values())
    assert len(found.notes) == 4 and all("not finite" in note for note in found.notes)


def test_a_run_without_kept_weights_shows_its_last_checkpoints(tmp_path: Path) -> None:
    change = {**TINY, "model": SMALL_MODEL, "evaluation": {**TINY["evaluation"], "keep_weights": 0, "keep_samples": 0}}
    done = run(load_settings("demo-gpt", change), tmp_path / "bare")
    found = dissect_run(done, small("positions", "raster", "groups"))
    assert found.infos["positions"].steps.tolist() == done.directory.checkpoint_steps()
    assert "evaluation.keep_weights" in found.notes[-1]
    assert set(found.refused) == {"raster", "groups"}
    assert any("evaluation.keep_samples" in note for note in found.notes)


def test_a_run_that_is_still_written_is_dissected_as_far_as_it_is(tmp_path: Path) -> None:
    class StopHereError(Exception): ...

    def stop(progress: object) -> None:
        if getattr(progress, "step") == 40 and getattr(progress, "evaluated"):  # noqa: B009
            raise StopHereError

    settings = load_settings("demo-gpt", {**TINY, "model": SMALL_MODEL})
    with pytest.raises(StopHereError):
        run(settings, tmp_path / "run", stop)
    part = dissect_run(load_run(tmp_path / "run"), small("positions", "raster"))
    assert part.infos["positions"].steps.tolist() == [0, 5, 20, 40]
    done = run(settings, tmp_path / "run")
    known = known_dissection(done)
    assert known is not None and known.infos["positions"].steps.tolist() == [0, 5, 20, 40]  # as far as it was seen
    whole = dissect_run(done, small("positions", "raster"))
    assert whole.measured == 2 and whole.infos["positions"].steps.tolist() == [0, 5, 20, 40, 60]


def test_views_asked_for_one_after_the_other_are_all_remembered(dit: Run) -> None:
    assert known_dissection(dit) is None
    dissect_run(dit, small("raster"))
    dissect_run(dit, small("field"))
    known = known_dissection(dit)
    assert known is not None and set(known.infos) == {"raster", "field"} and known.measured == 0
    (dit.path / "dissection" / "views.json").write_text("{}")
    assert known_dissection(dit) is None


def test_a_run_that_cannot_be_written_is_dissected_all_the_same(dit: Run, caplog: pytest.LogCaptureFixture) -> None:
    (dit.path / "dissection").write_text("in the way")
    found = dissect_run(dit, small("raster"))
    assert "raster" in found.infos
    page = write_report([dit], dit.path.parent / "page.html", {dit.path: found}).read_text()
    assert "Why:" in page


def test_every_view_has_a_drawing_and_the_page_shows_it(
    dit: Run, gpt: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert DRAWINGS.names() == VIEWS.names()
    before = write_report([dit], tmp_path / "before.html").read_text()
    assert "Why:" not in before
    chapters: list[WhyChapter] = []  # of the page, since drawing them takes seconds

    def recorded(found: Dissection, salt: str) -> WhyChapter:
        chapters.append(why_chapter(found, salt))
        return chapters[-1]

    monkeypatch.setattr(page_module, "why_chapter", recorded)
    for one in (dit, gpt):
        found = dissect_run(one, small())
        page = write_report([one], tmp_path / "page.html").read_text()
        chapter = chapters[-1]
        assert [part.name for part in chapter.sections] == [name for name in PAGE_ORDER if name in found.infos]
        for part in chapter.sections:
            assert '<svg role="img"' in part.figure and part.sentences
        assert "Why:" in page
        assert not re.findall(r'(?:src|href)="https?:', page) and "@import" not in page  # nothing is loaded
        for part in chapter.sections:
            assert part.title in page and part.sentences[0].split("(")[0][:40] in page.replace("&#39;", "'")
        for name in found.refused:
            assert f"“{name}”" in page
    films = [part.film for part in chapters[0].sections if part.film is not None]
    assert [len(film.drawings) for film in films] == [4, 5]  # transitions between five evaluations; five checkpoints
    assert all(drawing.startswith("<svg") for film in films for drawing in film.drawings)
    assert len(set(films[1].drawings)) == 5


@pytest.mark.usefixtures("empty_figures")
def test_the_command_prints_sentences_and_numbers(dit: Run, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dissect", str(dit.path), *WORDS]) == 0
    printed = capsys.readouterr().out
    assert "raster" in printed and "positions: does not apply: objective edm" in printed
    assert (work / "dit-why.html").exists()
    assert main(["dissect", str(dit.path), "--views", "raster", "basin", "--json", *WORDS[8:12]]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert set(plain["views"]) == {"raster", "basin"} and plain["views"]["basin"]["steps"] == [0, 5, 20, 40, 60]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--views", "rastr"], "raster"),
        (["--field.grid", "3"], "field.grid"),
        (["--field.gird", "30"], "grid"),
        (["--views", "raster", "--field.grid", "30"], "field"),
        (["--spectrum.band", "[2, 1]"], "spectrum.band"),
        (["--spectrum.levels", "2"], "spectrum.levels"),
        (["--raster.windows", "[5]"], "raster.windows"),
        (["--basin.sigmas", "[]"], "basin.sigmas"),
        (["--device", "tpu"], "--device: 'tpu' is not available"),
        (["--out", "why.txt"], "--out"),
        (["--field", "3"], "field"),
        (["--views", "positions"], "'positions' does not apply to this run (objective edm has no order of positions"),
        (["--views", "raster", "productions"], "rule parity has no productions"),
    ],
)
def test_wrong_input_gets_one_line_and_nothing_is_written(
    words: list[str], message: str, dit: Run, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dissect", str(dit.path), *words]) == 2
    line = capsys.readouterr().err
    assert message in line and line.count("\n") == 1
    assert not (dit.path / "dissection").exists() and not list(work.glob("*.html"))


def test_a_required_view_that_finds_nothing_to_measure_is_an_error(dit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(self: Raster, subject: Subject) -> Probe:
        raise ViewError("nothing here")

    monkeypatch.setattr(Raster, "prepare", prepare)
    assert dissect_run(dit, ["raster"]).refused == {"raster": "nothing here"}
    with pytest.raises(UserError, match=r"'raster' does not apply to this run \(nothing here\)"):
        dissect_run(dit, ["raster"], required=["raster"])
