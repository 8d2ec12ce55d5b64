"""Runs on data without a rule: copies and losses are measured, validity is not, and every reader says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import twoclocks as tc
from twoclocks.cli import main
from twoclocks.core.errors import SettingError
from twoclocks.evaluation import PartAccuracy, SampleAccuracy, SampleMemorization, ValidNew
from twoclocks.report.curves import curves_data
from twoclocks.report.page import write_report
from twoclocks.runs import load_settings, run
from twoclocks.runs.load import Run

TEXT = {
    **{"rule.length": 8, "data.n": 8, "model.width": 16, "model.depth": 1, "model.heads": 1},
    **{"training.steps": 12, "training.batch": 8, "training.device": "cpu", "training.precision": "float32"},
    **{"evaluation.evaluations": 5, "evaluation.first": 2, "evaluation.samples": 256, "evaluation.loss_rows": 16},
    **{"objective.sampler_levels": 4, "training.average": 0.5, "evaluation.prefix": 4},
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(load_settings("p2-md4-text", TEXT), tmp_path_factory.mktemp("text") / "run")


def test_validity_is_not_measured(text: Run) -> None:
    columns = text.metrics()
    assert SampleMemorization.name in columns and "loss_held_out" in columns
    described = {one["name"] for one in text.manifest["metrics"]}
    for missing in (SampleAccuracy.name, ValidNew.name, PartAccuracy.column("string")):
        assert not any(missing in name for name in [*columns, *described]), missing
    assert columns["distinct_new"][-1] > 0  # what is no copy is new


def test_there_is_no_rule_clock(text: Run) -> None:
    for weights in ("raw", "averaged"):
        clocks = text.clocks(weights=weights)  # type: ignore[arg-type]
        assert not clocks.has_rule and not clocks.rule.seen and clocks.verdict == "unknown"
        assert str(clocks) == "no rule: gap and copy clocks only" and str(clocks.rule) == "no rule"
    assert text.clocks().generation is not None  # by its held-out loss; not reached in so few steps
    assert text.clocks().gap is not None and text.clocks().as_json()["tau_rule"]["upper"] is None


def test_pages_and_curves_say_so(text: Run, tmp_path: Path) -> None:
    curves = curves_data(text)
    assert [curve.label for curve in curves.proportions[:1]] == ["copies of training samples"]
    assert curves.valid_new is None and "no rule" in curves.last_sentence
    page = write_report([text], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The data have no rule" in page and "These data have no rule" in page
    assert "valid samples of the rule" not in page and "The rule counts as learned" not in page


def test_commands_say_so(text: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clocks", str(text.path)]) == 0
    assert "no rule" in capsys.readouterr().out
    assert main(["clocks", str(text.path), "--json"]) == 0
    one = json.loads(capsys.readouterr().out)[0]
    assert one["tau_rule"]["definition"] == "no rule is known"


def test_nothing_can_stop_at_a_rule_that_is_not_there() -> None:
    with pytest.raises(SettingError, match=r"clocks.stop.*text has no rule"):
        load_settings("p2-md4-text", {"clocks.stop": "rule"})


def test_a_monitor_takes_such_data_too() -> None:
    rule = tc.rules.create("text", length=16)
    train = tc.data.training_set(rule, n=64, seed=0)
    monitor = tc.Monitor(train=train, rule=rule)
    decision = monitor.observe(1, torch.randint(0, 27, (200, 16)))
    assert decision.phase == "learning" and decision.copy_rate == 0.0
    with pytest.raises(SettingError, match="policy"):
        tc.Monitor(train=train, rule=rule, policy="rule")
