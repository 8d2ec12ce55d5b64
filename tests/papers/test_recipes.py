"""Recipes: each makes its runs once and records where its result comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twoclocks.papers import early_stopping
from twoclocks.papers.recipe import RECIPES, Measurement, Recipe, execute_recipe, judge
from twoclocks.runs import Run, RunSettings, load_run, load_settings
from twoclocks.store import RunDirectory


class Tiny(Recipe):
    """One tiny real run."""

    claim, paper, criterion = "T1", "it trains", "its status is finished"

    def settings(self, device: str) -> dict[str, RunSettings]:
        change = {
            "training": {"steps": 10, "batch": 4, "device": device},
            "evaluation": {"samples": 200, "steps": [5, 10], "loss_rows": 8},
            "clocks": {"sustain": 1},
            "model": {"width": 16, "depth": 1},
        }
        return {"one": load_settings("demo-gpt", change)}

    def measure_claim(self, runs: dict[str, Run]) -> Measurement:  # type: ignore[override]
        return Measurement("reproduced", runs["one"].status["status"], {})


def test_execute_records_provenance_and_does_not_repeat_a_finished_run(tmp_path: Path) -> None:
    RECIPES.register("tiny")(Tiny)
    lines: list[str] = []
    out = tmp_path / "tiny.json"
    try:
        execute_recipe("tiny", "cpu", tmp_path / "work", out, lines.append)
        created = (tmp_path / "work" / "one" / "metrics.jsonl").stat().st_mtime_ns
        execute_recipe("tiny", "cpu", tmp_path / "work", out, lines.append)
        assert (tmp_path / "work" / "one" / "metrics.jsonl").stat().st_mtime_ns == created
        RunDirectory(tmp_path / "work" / "one").set_status("interrupted")
        assert judge(Tiny(), {"one": load_run(tmp_path / "work" / "one")}).verdict == "unfinished"
        assert execute_recipe("tiny", "cpu", tmp_path / "work", out, lines.append).verdict == "reproduced"  # continued
    finally:
        RECIPES._members.pop("tiny")
    assert load_run(tmp_path / "work" / "one").manifest["commit"] == json.loads(out.read_text())["commit"]
    result = json.loads((tmp_path / "tiny.json").read_text())
    assert {"claim", "paper", "criterion", "command", "commit", "versions", "machine"} <= result.keys()
    assert result["runs"]["one"]["curves"]["step"] == [5, 10] and result["measured"] == "finished"


def test_registered_recipes_have_claims() -> None:
    assert early_stopping.__doc__
    for name, recipe in RECIPES.items():
        assert recipe.claim and recipe.paper and recipe.criterion, name


class Searching(Recipe):
    """A recipe that searches for a setting before its run begins."""

    claim = paper = criterion = "x"
    searches = 0

    def settings(self, device: str) -> dict[str, RunSettings]:
        return {"one": next(iter(TINY.values()))}

    def prepared(self, settings: RunSettings) -> RunSettings:
        Searching.searches += 1
        return replace(settings, training=replace(settings.training, learning_rate=0.01 * Searching.searches))

    def measure_claim(self, runs: Mapping[str, Run]) -> Any:
        (one,) = runs.values()
        return Measurement("reproduced", f"rate {one.settings.training.learning_rate}", {})


TINY: dict[str, RunSettings] = {}


def test_what_was_searched_for_is_kept_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = {"training.steps": 4, "evaluation.steps": [0, 2, 4], "evaluation.samples": 256, "model.width": 16}
    TINY["one"] = load_settings("demo-gpt", {**change, "model.depth": 1, "model.heads": 2})
    monkeypatch.setitem(RECIPES._members, "searching", Searching)
    sentences = [
        execute_recipe("searching", "cpu", tmp_path, tmp_path / "x.json", lambda line: None).sentence for _ in range(2)
    ]
    assert sentences == ["rate 0.01", "rate 0.01"]
