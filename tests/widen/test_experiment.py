"""Paired experiments: what arms share and what they change, which interventions apply, and known effects are found."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from twoclocks.analysis.gains import read_gains
from twoclocks.cli import main
from twoclocks.clocks.effects import Span
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import NO_RULE, Clocks
from twoclocks.core.config import flat, to_mapping
from twoclocks.core.errors import UserError
from twoclocks.runs import load_settings
from twoclocks.runs.rows import StoredRun, file_name
from twoclocks.runs.settings import RunSettings
from twoclocks.store.files import write_json
from twoclocks.sweeps import executor_of
from twoclocks.sweeps.row_keeper import RowKeeper
from twoclocks.widen import INTERVENTIONS, Intervention, choose_interventions, plan_experiment, read_findings
from twoclocks.widen.estimate import estimate
from twoclocks.widen.experiment import BASE, PairedExperiment, run_experiment
from twoclocks.widen.run_result import RunResult, times_of
from twoclocks.widen.words import interval_words, sentences

ROOT = Path(__file__).parents[2]
ALL = choose_interventions(None, {})
BASES = {
    "demo": {"rule": {"name": "parity", "length": 24, "group": 3}},
    "demo-gpt": {"rule": {"name": "parity", "length": 24, "group": 3}},
    "p2-rhm-l3-authors": {"model.width": 16, "training.device": "cpu", "training.precision": "float32"},
    "p2-md4-rhm": {"training.device": "cpu", "training.precision": "float32"},
    "images-small": {},
}
# What cannot apply: next-token prediction has no noise levels, grammars and images no groups, a U-Net no registers, …
NOISE = {"higher_noise", "lower_noise", "narrow_noise", "noise_curriculum"}
REFUSED = {
    "demo": set(),
    "demo-gpt": NOISE,
    "p2-rhm-l3-authors": {*NOISE, "augmentation", "dropout", "group_curriculum", "registers"},
    "p2-md4-rhm": {*NOISE, "augmentation", "group_curriculum"},
    "images-small": {*NOISE, "group_curriculum", "registers"},
}


@pytest.mark.parametrize("preset", BASES)
def test_interventions_apply_where_they_make_sense_and_say_why_not(preset: str) -> None:
    experiment = plan_experiment(load_settings(preset, BASES[preset]), ALL)
    assert set(experiment.refused) == REFUSED[preset]
    assert all(": " in why for why in experiment.refused.values())  # the setting, and the fix
    assert {arm.name for arm in experiment.arms} == {BASE, *ALL} - REFUSED[preset]


@pytest.mark.parametrize("preset", BASES)
def test_arms_differ_from_the_base_in_their_change_alone(preset: str) -> None:
    experiment = plan_experiment(load_settings(preset, BASES[preset]), ALL, seeds=2)
    base = flat(to_mapping(experiment.base, whole=True))
    for arm in experiment.arms[1:]:
        mine = flat(to_mapping(arm.settings, whole=True))
        assert {key for key in {*mine, *base} if mine.get(key) != base.get(key)} - {"name"} <= set(arm.change)
        for seed in (0, 1):
            one, other = arm.cell(seed).settings, experiment.arms[0].cell(seed).settings
            assert (one.data.seed, one.training.seed) == (other.data.seed, other.training.seed)
    assert len({cell.key for _, _, cell in experiment.cells}) == 2 * len(experiment.arms)


def test_longer_runs_are_evaluated_as_often() -> None:
    base = load_settings("demo-gpt")
    longer = plan_experiment(base, {"dropout": ALL["dropout"]}, longer=4.0).base
    assert longer.training.steps == 4 * base.training.steps and longer.clocks.stop == "memory"
    apart = [np.diff(np.log(one.schedule[-8:])).mean() for one in (base, longer)]
    assert apart[1] == pytest.approx(apart[0], rel=0.1)


def test_averaged_weights_are_read_from_runs_that_do_not_stop_early() -> None:
    experiment = plan_experiment(load_settings("demo-gpt"), {"average": ALL["average"]})
    assert experiment.arms[1].weights == "averaged" and experiment.arms[1].settings.clocks.stop == "never"


@pytest.mark.parametrize("name", INTERVENTIONS.names())
def test_every_intervention_is_off_by_default_and_explained(name: str) -> None:
    assert ALL[name].__doc__ and not ALL[name].__doc__.startswith("Base class")


@pytest.mark.parametrize(
    ("rule", "memory", "expected"),
    [
        ((100, 200, "observed"), (900, 1200, "observed"), {"learned": (100, 200), "window": (700, 1100)}),
        ((100, 200, "observed"), (900, math.inf, "right-censored"), {"learned": (100, 200), "window": (700, math.inf)}),
        ((0, 200, "left-censored"), (900, 1200, "observed"), {"learned": (0, 200), "window": (700, 1200)}),
        ((150, 300, "observed"), (250, 400, "observed"), {"learned": (150, 300), "window": (0, 250)}),
        ((900, 1200, "observed"), (100, 200, "observed"), {"learned": (100, math.inf)}),
        ((500, math.inf, "right-censored"), (400, 450, "observed"), {"learned": (400, math.inf)}),
        ((500, math.inf, "right-censored"), (500, math.inf, "right-censored"), {"learned": (500, math.inf)}),
    ],
)
def test_times_of_a_run(rule: Any, memory: Any, expected: dict[str, tuple[float, float]]) -> None:
    found = times_of(Clocks(Onset(*rule), Onset(*memory)))
    spans = {key: (span.lower, span.upper) for key, span in found.items()}
    assert spans.pop("memory") == memory[:2] and spans == expected


def test_data_without_a_rule_have_no_rule_clock_to_compare() -> None:
    assert set(times_of(Clocks(NO_RULE, Onset(900, 1200, "observed")))) == {"memory"}


def test_an_intervention_whose_runs_diverge_is_not_found_to_delay_copying() -> None:
    """Broken networks copy nothing: as censored times, these would be a delay of more than a factor of 5."""

    def runs(name: str, status: str, *times: Span) -> list[RunResult]:
        return [RunResult(name, seed, status, "", {"memory": time}, 1.0, {}) for seed, time in enumerate(times)]

    base = runs(BASE, "finished", Span(100, 110), Span(95, 105), Span(105, 115))
    late = [Span(900, math.inf)] * 3
    effects, notes = estimate({BASE: base, "broken": runs("broken", "diverged", *late)})
    assert effects == {} and any(note.startswith("broken: a run diverged") for note in notes)
    effects, _ = estimate({BASE: base, "late": runs("late", "finished", *late)})
    assert effects["memory"]["late"].is_found


@dataclass(frozen=True, kw_only=True)
class MoreData(Intervention):
    """Three times the data: copying must begin later."""

    def change(self, base: RunSettings) -> dict[str, Any]:
        return {"data.n": 3 * base.data.n}


@dataclass(frozen=True, kw_only=True)
class OtherSamples(Intervention):
    """Other noises for the samples of evaluations: training is the same, so there is no effect."""

    def change(self, base: RunSettings) -> dict[str, Any]:
        return {"evaluation.seed": 7}


@pytest.mark.slow
def test_a_known_effect_is_found_and_a_null_one_is_not(tmp_path: Path) -> None:
    """Real runs of a small GPT: three times the data delays copying; other noises of evaluations change nothing."""
    small = {
        "rule": {"name": "parity", "length": 16, "group": 2},
        "data.n": 24,
        "model.width": 32,
        "training.batch": 32,
    }
    base = load_settings("demo-gpt", {**small, "training.steps": 700, "clocks.above_chance": True})
    experiment = plan_experiment(base, {"more_data": MoreData(), "other_samples": OtherSamples()})
    executor, _ = executor_of("local", 2, {})
    sweep = run_experiment(experiment, tmp_path / "runs", executor, lambda sweep: None)
    assert not sweep.failures
    findings = read_findings(experiment, tmp_path / "runs")
    more, other = findings.interventions
    assert more.effects["memory"].is_found and more.effects["memory"].interval[0] > 1.3
    assert not any(effect.is_found for effect in other.effects.values())
    assert other.effects["memory"].interval[0] < 1 < other.effects["memory"].interval[1]
    assert other.cost["operations"] == other.cost["samples"] == 1.0
    plain = json.loads(json.dumps(findings.as_json(), allow_nan=False))
    assert [arm["arm"] for arm in plain["arms"]] == [BASE, "more_data", "other_samples"]
    assert (plain["n"], plain["rule"]) == (base.data.n, "parity")
    write_json(tmp_path / "widen.json", plain)
    gains = read_gains(tmp_path)  # as 'twoclocks plan --widen' reads them
    assert [gain.intervention for gain in gains] == ["more_data", "other_samples"]
    assert [gain.memory is not None and gain.memory.found for gain in gains] == [True, False]
    said = sentences(findings)
    assert said[0].startswith("more_data: copying begins later, ×") and "No effect found on" in said[1]


def test_operations_are_those_of_the_products() -> None:
    from twoclocks.runs.operations import step_operations

    settings = load_settings("demo-gpt")
    width, depth, tokens, batch = 64, 2, 24, 64
    products = depth * 12 * width**2 + width * 2  # weights of blocks and head per token
    attention = depth * 2 * tokens * width  # scores and mixtures per token
    assert step_operations(settings) == 3 * 2 * batch * tokens * (products + attention)
    masked = load_settings("demo-gpt", {"training.masked_loss": 1.0})
    assert step_operations(masked) == 2 * step_operations(settings)


def test_intervals_in_words() -> None:
    from twoclocks.clocks.effects import Effect

    def words(low: float, high: float) -> str:
        return interval_words(Effect("a", 1.0, (low, high), 0.5, 1.0, 3, 0))

    assert words(0.5, 2.0) == "0.5 to 2" and words(2.0, math.inf) == "above 2"
    assert words(0.0, 0.8) == "below 0.8" and words(0.0, math.inf) == "anything"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo-gpt", "--with", "dropot"], "did you mean 'dropout'"),
        (["demo-gpt", "--with", "dropout", "--average.decay", "0.9"], "average"),
        (["demo-gpt", "--with", "dropout", "--dropout.rate", "2"], "dropout.rate"),
        (["demo-gpt", "--with", "dropout", "--dropout", "0.1"], "--dropout.KEY"),
        (["demo-gpt", "--seeds", "1"], "--seeds"),
        (["demo-gpt", "--longer", "0.5"], "--longer"),
        (["demo-gpt", "--with", "higher_noise"], "no intervention applies"),
        (["no-such-preset"], "no-such-preset"),
        (
            ["demo-gpt", "--with", "dropout", "--rows", "pyproject.toml"],
            "--rows: 'pyproject.toml' is not allowed; it is",
        ),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["widen", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_plan_lists_arms_and_trains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["widen", "demo-gpt", "--with", "dropout", "higher_noise", "--plan", "--json", "--out", str(out)]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert [arm["arm"] for arm in plain["arms"]] == [BASE, "dropout"] and "higher_noise" in plain["does_not_apply"]
    assert not out.exists()


def test_an_unfinished_experiment_is_not_read(tmp_path: Path) -> None:
    experiment = plan_experiment(load_settings("demo-gpt"), {"dropout": ALL["dropout"]})
    with pytest.raises(UserError):
        read_findings(experiment, tmp_path)


def test_finished_runs_are_compared_while_others_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the finished runs say is what an experiment of these runs alone says; the page names the missing ones."""
    small = ["--training.steps", "12", "--evaluation.samples", "256", "--evaluation.evaluations", "3"]
    small += ["--model.width", "16", "--model.depth", "1", "--model.heads", "1", "--clocks.sustain", "1"]
    words = ["widen", "demo-gpt", "--longer", "1", *small, "--rows", str(tmp_path / "rows"), "--out", str(tmp_path)]
    assert main([*words, "--finished"]) == 2
    assert "0 runs of the base are finished, and a comparison needs 2" in capsys.readouterr().err
    assert main([*words, "--seeds", "2", "--with", "dropout", "--json"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert main([*words, "--with", "dropout", "registers", "--json", "--finished"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["missing"] == {"base": [2], "dropout": [2], "registers": [0, 1, 2]} and both["missing"] == {}
    assert found["notes"][0].startswith("5 of 9 runs are not finished (intervention, seeds: registers 0, 1, 2; base 2")
    assert [arm["arm"] for arm in found["arms"]] == ["base", "dropout"] and found["arms"] == both["arms"]
    assert "--finished" in json.loads((tmp_path / "widen.json").read_text())["command"]


def test_an_intervention_with_one_pair_is_not_estimated() -> None:
    def runs(arm: str, *seeds: int) -> list[RunResult]:
        return [
            RunResult(arm, seed, "finished", "", {"memory": Span(90 + seed, 110 + seed)}, 1.0, {}) for seed in seeds
        ]

    results = {BASE: runs(BASE, 0, 1), "one": runs("one", 1, 2), "two": runs("two", 0, 1)}
    effects, notes = estimate(results)
    assert set(effects["memory"]) == {"two"} and "one: 1 finished with a run of the base" in notes[0]


def small_experiment() -> PairedExperiment:
    small = {"training.steps": 12, "evaluation.samples": 256, "evaluation.evaluations": 3, "clocks.sustain": 1}
    base = load_settings("demo-gpt", {**small, "model": {"name": "gpt", "width": 16, "depth": 1, "heads": 1}})
    return plan_experiment(base, {"dropout": ALL["dropout"]}, seeds=2, longer=1)


def test_the_command_can_be_repeated_when_it_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it wrote beside the runs is no reason to refuse the folder, and nothing is trained again."""
    small = {"training.steps": 12, "evaluation.samples": 256, "evaluation.evaluations": 3, "clocks.sustain": 1}
    small |= {"model.width": 16, "model.depth": 1, "model.heads": 1}
    words = ["widen", "demo-gpt", "--with", "dropout", "--seeds", "2", "--longer", "1", "--out", str(tmp_path / "out")]
    words += [word for name, value in small.items() for word in (f"--{name}", str(value))]
    assert main([*words, "--executor.together", "2"]) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("status.json")}
    assert main(words) == 0 and len(before) == 4
    assert before == {path: path.read_bytes() for path in (tmp_path / "out").rglob("status.json")}
    found = json.loads((tmp_path / "out" / "widen.json").read_text())
    assert any("trained together" in note for note in found["notes"])
    (tmp_path / "out" / "other.txt").touch()
    assert main(words) == 2 and "is not an empty folder" in capsys.readouterr().err


def test_an_experiment_goes_on_from_its_rows_on_another_machine(tmp_path: Path) -> None:
    experiment, executor = small_experiment(), executor_of("local", 2, {})[0]
    here, rows, there = tmp_path / "here", tmp_path / "rows", tmp_path / "there"
    assert run_experiment(experiment, here, executor, lambda _: None, rows) is not None
    assert len(list(rows.iterdir())) == len(experiment.cells) == 4
    of_runs, of_rows = read_findings(experiment, here), read_findings(experiment, tmp_path / "nowhere", rows)
    assert of_rows.as_json() == of_runs.as_json()

    assert run_experiment(experiment, there, executor, lambda _: None, rows) is None and not there.exists()
    damaged, lost = sorted(rows.iterdir())[:2]
    damaged.write_bytes(damaged.read_bytes()[:-200])
    lost.unlink()
    made = run_experiment(experiment, there, executor, lambda _: None, rows)
    assert made is not None and len(made.plan.cells) == 2 and len(list((there / "cells").iterdir())) == 2
    again = read_findings(experiment, tmp_path / "nowhere", rows)
    assert [one.times for arm in again.arms for one in arm.runs] == [
        one.times for arm in of_runs.arms for one in arm.runs
    ]


def test_rows_of_other_settings_are_not_taken(tmp_path: Path) -> None:
    """Their name has eight digits of the settings' digest; whoever renames a file must not change a result."""
    experiment, executor = small_experiment(), executor_of("local", 2, {})[0]
    run_experiment(experiment, tmp_path / "runs", executor, lambda _: None, tmp_path / "rows")
    (_, _, first), (_, _, second), *_ = experiment.cells
    source, target = (tmp_path / "rows" / file_name(cell.settings) for cell in (first, second))
    target.write_bytes(source.read_bytes())
    assert RowKeeper(tmp_path / "rows").find(first) is not None and RowKeeper(tmp_path / "rows").find(second) is None


def test_findings_name_all_commits_of_their_runs(tmp_path: Path) -> None:
    experiment, executor = small_experiment(), executor_of("local", 2, {})[0]
    run_experiment(experiment, tmp_path / "runs", executor, lambda _: None, tmp_path / "rows")
    one = sorted((tmp_path / "rows").iterdir())[0]
    header, *rest = one.read_text().splitlines()
    one.write_text("\n".join([json.dumps({**json.loads(header), "commit": "another"}), *rest]) + "\n")
    assert "another" in read_findings(experiment, tmp_path / "runs", tmp_path / "rows").as_json()["commits"]


def test_committed_rows_are_runs_of_the_documented_experiments() -> None:
    """The commands in docs/widen.md go on from them: another default would train all of them again."""
    text = (ROOT / "docs" / "widen.md").read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)).replace("\\\n", " ")
    commands = re.findall(r"^twoclocks widen (\S+ .*--rows.*)$", blocks, re.MULTILINE)
    commands += re.findall(r"`twoclocks widen (\S+\s[^`]*--rows[^`]*)`", text)
    found = {words.split()[0]: rows_of(words) for words in commands}
    assert {name: len(rows) for name, rows in found.items()} == {
        "demo": 15,
        "demo-gpt": 33,
        "p1-gpt-mini": 42,
        "p1-dit-mini": 21,
        "p2-rhm-l3-authors": 30,
        "p2-digits": 33,
    }
    stored = [one for runs in found.values() for one in runs]
    assert {one.path for one in stored} == set((ROOT / "results" / "widen").iterdir())
    assert all(one.step_seconds > 0 and len(one.manifest["commit"]) in (9, 40) for one in stored)


def rows_of(words: str) -> list[StoredRun]:
    """The committed rows that a command of the docs would not train again: its preset is the first word."""
    preset, *options = words.split()
    chosen: list[str] | None = None
    if "--with" in options:
        place = options.index("--with")
        options, chosen = options[:place], options[place + 1 :]
    change = {key.removeprefix("--"): value for key, value in zip(options[::2], options[1::2], strict=True)}
    rows = RowKeeper(ROOT / change.pop("rows"))
    longer = {"longer": float(change.pop("longer"))} if "longer" in change else {}
    settings: dict[str, dict[str, Any]] = {}
    for key in [key for key in change if key.split(".")[0] in INTERVENTIONS.names()]:
        name, field = key.split(".")
        settings.setdefault(name, {})[field] = yaml.safe_load(change.pop(key))
    base = load_settings(preset, {key: yaml.safe_load(value) for key, value in change.items()})
    experiment = plan_experiment(base, choose_interventions(chosen, settings), **longer)
    return [stored for _, _, cell in experiment.cells if (stored := rows.find(cell)) is not None]
