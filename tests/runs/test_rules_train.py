"""Every rule with every encoding that makes sense, with both models, through the same command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twoclocks.cli import main
from twoclocks.data.encodings import ENCODINGS
from twoclocks.report.page import write_report
from twoclocks.rules import RULES
from twoclocks.runs import load_run
from twoclocks.runs.settings import FOR_IMAGES

QUICK = {
    "data.n": 4,
    "training.steps": 3,
    "training.batch": 4,
    "evaluation.samples": 100,
    "evaluation.steps": [0, 1, 3],
    "evaluation.loss_rows": 8,
    "model.width": 16,
    "model.depth": 1,
    "model.heads": 2,
}


def words(settings: dict[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in (f"--{key}", json.dumps(value))]


def cases() -> list[tuple[str, str, dict[str, Any]]]:
    found = []
    for rule, cls in RULES.items():
        bits = RULES.create(rule, **cls.examples[0]).symbols == 2
        for encoding, kind in ((name, one.kind) for name, one in ENCODINGS.items()):
            fits = encoding in FOR_IMAGES if cls.is_image else encoding != "pixels" and (encoding != "sign" or bits)
            if fits:
                found.append((rule, encoding, {"preset": "demo" if kind == "image" else "demo-gpt"}))
        if not cls.is_image:
            found.append((rule, "one_hot", {"preset": "demo", "encoding.zero_mean": True}))
    return found


@pytest.mark.parametrize(("rule", "encoding", "more"), cases(), ids=str)
def test_trains(rule: str, encoding: str, more: dict[str, Any], work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = {f"rule.{key}": value for key, value in RULES.get(rule).examples[-1].items()}
    extra = {key: value for key, value in more.items() if key != "preset"}
    if more["preset"] == "demo":
        extra["objective.sampler_steps"] = 2
    command = ["run", more["preset"], "--rule.name", rule, "--encoding", encoding, "--out", "run", "--json"]
    assert main([*command, *words({**chosen, **extra, **QUICK})]) == 0, capsys.readouterr().err
    run = load_run("run")
    assert RULES.name_of(run.settings.rule) == rule
    columns = run.metrics()
    for kind in () if run.settings.rule.is_image else run.settings.rule.part_counts():
        assert f"{kind}_memorization" in columns
        if not run.settings.rule.has_rule:
            assert f"{kind}_accuracy" not in columns
            continue
        assert columns[f"{kind}_accuracy"][-1] <= 1
        assert run.metric(f"{kind}_accuracy").chance_cube == pytest.approx(run.settings.rule.part_chance()[kind])
    assert run.metric("sample_memorization").chance_rule == run.settings.rule.copy_chance(4)


def test_run_without_a_preset_names_the_run_after_its_rule(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = words({**QUICK, "objective.sampler_steps": 2})
    assert main(["run", "--rule.name", "sudoku", "--encoding", "one_hot", *quick]) == 0
    run = load_run("runs/sudoku")
    assert run.settings.name == "sudoku" and ENCODINGS.name_of(run.settings.encoding) == "one_hot"
    page = write_report([run], work / "page.html").read_text(encoding="utf-8")
    assert "sudoku, block_rows 2, block_cols 3" in page
    assert main(["run", "--json", "--rule.name=latin", "--rule.side", "4", "--out", "x", *quick]) == 0
    assert load_run("x").settings.name == "latin"


def test_twin_runs_share_no_training_row(work: Path) -> None:
    quick = words({**QUICK, "objective.sampler_steps": 2, "data.n": 10})
    rows = []
    for part in ("0", "1"):
        assert main(["run", "--rule.name", "sudoku", "--out", f"twin{part}", "--data.part", part, *quick]) == 0
        rows.append({tuple(row) for row in load_run(f"twin{part}").evaluator.train.flatten(1).tolist()})
    assert len(rows[0]) == len(rows[1]) == 10 and rows[0].isdisjoint(rows[1])
