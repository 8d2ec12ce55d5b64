"""Averaged weights: exactly the average of the raw ones, evaluated beside them, and without a trace in training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import SMALL_MODEL, TINY

from twoclocks.cli import main
from twoclocks.clocks.series import Series
from twoclocks.core.config import build, to_mapping
from twoclocks.core.counts import values_of
from twoclocks.core.errors import SettingError
from twoclocks.report.curves import curves_data
from twoclocks.report.summary import summarise
from twoclocks.runs import Experiment, Run, RunSettings, load_run, load_settings, run
from twoclocks.runs.digest import digest_run
from twoclocks.runs.memory import memory_needs
from twoclocks.runs.rows import StoredRun, write_rows
from twoclocks.store import verify_tree

STEPS = 14
COLUMNS = {
    *("averaged_sample_accuracy", "averaged_sample_memorization", "averaged_valid_new", "averaged_group_accuracy"),
    *("averaged_holdout_memorization", "averaged_group_memorization"),
}


def with_average(settings: RunSettings, average: float) -> RunSettings:
    return replace(settings, training=replace(settings.training, average=average))


def last_tensors(done: Run) -> dict[str, torch.Tensor]:
    found = done.directory.last_good()
    assert found is not None
    return found.tensors


def average_of(done: Run) -> dict[str, torch.Tensor]:
    inside = "average.weights."
    return {key.removeprefix(inside): v for key, v in last_tensors(done).items() if key.startswith(inside)}


@pytest.mark.parametrize(("preset", "threads", "decay"), [("demo", 1, 0.5), ("demo-gpt", 2, 0.99)])
def test_the_average_is_that_of_the_weights_of_every_step_and_its_samples_are_evaluated(
    preset: str, threads: int, decay: float, tmp_path: Path
) -> None:
    """A slow version in float64, from the weights that the run stored after each of its steps."""
    change = {
        **{**TINY, "model": SMALL_MODEL, "evaluation": {**TINY["evaluation"], "steps": list(range(STEPS + 1))}},
        "training": {**TINY["training"], "steps": STEPS, "average": decay, "threads": threads},
        **({"objective": {"sampler_steps": 4}} if preset == "demo" else {}),
    }
    done = run(load_settings(preset, change), tmp_path / "run")
    stored = [done.directory.read_artifact("weights", step) for step in range(STEPS + 1)]
    slow = {name: value.double() for name, value in stored[0].items()}
    for step in range(1, STEPS + 1):
        keep = min(decay, (1 + step) / (10 + step))
        slow = {name: keep * value + (1 - keep) * stored[step][name].double() for name, value in slow.items()}
    found = average_of(done)
    assert found.keys() == slow.keys() and last_tensors(done)["average.updates"] == STEPS
    for name, value in slow.items():
        torch.testing.assert_close(found[name].double(), value, rtol=1e-5, atol=1e-7)
    assert any((found[name] - stored[-1][name]).abs().max() > 1e-3 for name in slow)

    plain = Experiment(with_average(done.settings, 0.0))
    plain.load_weights(found)
    plain.network.eval()
    expected = plain.evaluator.row(plain.encoding.decode(plain.rule, plain.sample()))
    row = done.rows()[-1]
    averaged = {key.removeprefix("averaged_"): value for key, value in row.items() if key.startswith("averaged_")}
    assert averaged and averaged == {key: expected[key] for key in averaged}


def test_training_is_bit_identical_with_and_without_the_average(tiny_gpt: Run, tiny_averaged: Run) -> None:
    assert tiny_averaged.settings == with_average(tiny_gpt.settings, 0.9)
    plain, averaged = last_tensors(tiny_gpt), last_tensors(tiny_averaged)
    assert all(torch.equal(averaged[name], value) for name, value in plain.items())
    assert {name.split(".")[0] for name in averaged.keys() - plain.keys()} == {"average"}
    rows = [
        {key: value for key, value in row.items() if not key.startswith("averaged_")} for row in tiny_averaged.rows()
    ]
    assert rows == tiny_gpt.rows()  # with the SHA-256 of samples and of the weights kept for dissection
    assert tiny_averaged.clocks() == tiny_gpt.clocks()


def test_columns_stand_beside_the_raw_ones_and_are_described(tiny_gpt: Run, tiny_averaged: Run) -> None:
    columns = tiny_averaged.metrics()
    assert {name for name in columns if name.startswith("averaged_")} == COLUMNS
    assert not any(name.startswith("averaged_") for name in tiny_gpt.metrics())
    for name in COLUMNS:
        raw, beside = tiny_averaged.metric(name.removeprefix("averaged_")), tiny_averaged.metric(name)
        assert beside == replace(raw, name=name, about=f"averaged weights: {raw.about}")
        assert columns[name][0] == columns[raw.name][0]  # before the first update both are the same weights
        assert np.isfinite(columns[name]).all()
    assert any((columns[name] != columns[name.removeprefix("averaged_")]).any() for name in COLUMNS)


def test_clocks_of_averaged_weights_are_read_from_their_counts(
    tiny_averaged: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tiny_averaged.rows()
    pieces = [row["averaged_group_accuracy_hits"] * 100 / row["averaged_group_accuracy_trials"] for row in rows]
    series = Series(
        steps=[0, 5, 20, 40, 60],
        trials=[100] * 5,
        copied=[row["averaged_sample_memorization_hits"] for row in rows],
        valid=[row["averaged_sample_accuracy_hits"] for row in rows],
        parts={"group": pieces},
    )
    expected = tiny_averaged.settings.clocks.read(series, tiny_averaged.copy_chance)
    assert expected.gap is None and tiny_averaged.clocks().gap is not None
    committed = StoredRun(write_rows(tiny_averaged, tmp_path))
    for one in (tiny_averaged, tiny_averaged.reading(), digest_run(tiny_averaged), committed):
        assert one.clocks(weights="averaged") == expected and one.has_averages
        assert one.clocks() == tiny_averaged.clocks()
    assert summarise(tiny_averaged)["averaged"] == expected.as_json()
    assert main(["clocks", str(tiny_averaged.path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count(", averaged weights") == 1
    assert main(["clocks", str(tiny_averaged.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["averaged"] == json.loads(json.dumps(expected.as_json()))


def test_pages_draw_the_curves_of_averaged_weights(tiny_gpt: Run, tiny_averaged: Run) -> None:
    raw, both = (curves_data(one).proportions for one in (tiny_gpt, tiny_averaged))
    more = both[len(raw) :]
    assert [curve.label for curve in more] == ["valid, averaged weights", "copies, averaged weights"]
    assert np.array_equal(more[0].values, tiny_averaged.metrics()["averaged_sample_accuracy"][1:])


def test_a_run_without_averages_has_none_of_their_clocks(tiny_gpt: Run, tiny_averaged: Run) -> None:
    assert "averaged" not in summarise(tiny_gpt)
    with pytest.raises(SettingError, match=r"weights: 'averaged' .*training\.average, for example 0\.999"):
        tiny_gpt.clocks(weights="averaged")
    wrong: Any = "mean"
    for one in (tiny_averaged, tiny_averaged.reading(), digest_run(tiny_averaged)):
        with pytest.raises(SettingError, match="weights: 'mean' is not allowed; use one of raw, averaged"):
            one.clocks(weights=wrong)


@pytest.mark.parametrize(("value", "fix"), [(1, "below 1"), (-0.1, "at least 0"), ("half", "use a float")])
def test_decays_that_cannot_be_are_refused(value: object, fix: str) -> None:
    with pytest.raises(SettingError) as caught:
        load_settings("demo", {"training.average": value})
    assert all(words in str(caught.value) for words in ("training.average", str(value), fix))


def test_a_run_without_it_is_stored_as_before_the_setting_existed(tiny_gpt: Run, tiny_averaged: Run) -> None:
    stored = tiny_gpt.manifest["settings"]["training"]
    assert "average" not in stored and tiny_averaged.manifest["settings"]["training"]["average"] == 0.9
    assert tiny_gpt.settings.identity()["training"]["average"] == 0.0  # as errors and tables show it
    assert tiny_gpt.settings.digest() == tiny_gpt.manifest["origin"] != tiny_averaged.settings.digest()
    for done in (tiny_gpt, tiny_averaged):
        assert build(RunSettings, to_mapping(done.settings)) == done.settings


def test_memory_knows_the_copy(tiny_gpt: Run, tiny_averaged: Run) -> None:
    plain, averaged = (memory_needs(done.settings)[0] for done in (tiny_gpt, tiny_averaged))
    assert plain.field == "model" and averaged.size * 4 == plain.size * 5


def test_a_fork_may_begin_an_average_or_end_it(tmp_path: Path, tiny_gpt: Run, tiny_averaged: Run) -> None:
    longer = {"training": {"steps": 80}, "evaluation": {"steps": [0, 5, 20, 40, 60, 70, 80]}}
    forks = {}
    for name, source in (("on", tiny_gpt), ("off", tiny_averaged)):
        other = with_average(source.settings, 0.9 if name == "on" else 0.0)
        settings = load_settings("demo-gpt", {**to_mapping(other), **merged(to_mapping(other), longer)})
        run(source.settings, tmp_path / name)
        forks[name] = run(settings, tmp_path / name, fork=True)
    on, off = forks["on"], forks["off"]
    assert on.clocks() == off.clocks() and all(findings.intact for findings in verify_tree(tmp_path))
    values = on.metrics()["averaged_sample_accuracy"]
    assert np.isnan(values[:5]).all() and np.isfinite(values[5:]).all()
    assert on.series(weights="averaged").steps == [70, 80] and last_tensors(on)["average.updates"] == 20
    assert not off.has_averages and not average_of(off)
    assert [values_of(row).keys() >= COLUMNS for row in load_run(off.path).rows()] == [True] * 5 + [False] * 2


def merged(settings: dict[str, Any], change: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {section: {**settings[section], **values} for section, values in change.items()}
