"""Recipes judge runs whose curves are known: written by hand into real run directories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from twoclocks.papers import two_clocks
from twoclocks.papers.recipe import RECIPES, Measurement, Recipe, execute_recipe, judge
from twoclocks.papers.two_clocks.counting import Counting
from twoclocks.papers.two_clocks.law import PAPER_A, PAPER_ALPHA, SIZES, GPTLaw
from twoclocks.papers.two_clocks.order import Order
from twoclocks.papers.two_clocks.structured import Structured
from twoclocks.runs import Run, RunSettings, load_run, load_settings
from twoclocks.store import RunDirectory
from twoclocks.testing.runs import write_run


def sigmoid(steps: np.ndarray, middle: float) -> np.ndarray:  # type: ignore[type-arg]
    """Crosses one half at ``middle``; sharp, as the papers' transitions are."""
    return 1 / (1 + (steps / middle) ** -12.0)


def written(
    path: Path,
    settings: RunSettings,
    tau_rule: float,
    tau_mem: float,
    dip: float = 0.0,
    parts: Mapping[str, float] = MappingProxyType({}),
) -> Run:
    """A run directory whose cube, rule and memory transitions lie at given steps, and those of parts of the rule."""
    steps = np.array(settings.schedule, dtype=float)
    valid = sigmoid(steps, tau_rule) * (1 - dip * sigmoid(steps, 1.5 * tau_mem))
    columns = {
        "loss": np.ones_like(steps),
        "sample_accuracy": valid,
        "sample_memorization": sigmoid(steps, tau_mem),
        "valid_new": valid * (1 - sigmoid(steps, tau_mem)),
        "invalid_0.5": 1 - sigmoid(steps, tau_rule / 20),
        **{f"{kind}_accuracy": sigmoid(steps, tau) for kind, tau in parts.items()},
    }
    return write_run(path, settings, columns)


def one(recipe: Recipe) -> RunSettings:
    return next(iter(recipe.settings("cpu").values()))


@pytest.mark.parametrize(
    ("tau_rule", "tau_mem", "dip", "verdict"),
    [
        (5_000, 15_000, 0.1, "reproduced"),
        (5_000, 15_000, 0.0, "not reproduced"),  # no dip
        (15_000, 5_000, 0.1, "not reproduced"),  # memory first
        (5_000, 1e9, 0.1, "not reproduced"),  # no memory by the end of a finished run
    ],
)
def test_order(tmp_path: Path, tau_rule: float, tau_mem: float, dip: float, verdict: str) -> None:
    recipe = Order()
    measured = recipe.measure_claim({"x": written(tmp_path / "x", one(recipe), tau_rule, tau_mem, dip)})
    assert measured.verdict == verdict
    json.dumps(measured.values, allow_nan=False)


@pytest.mark.parametrize(
    ("a", "alpha", "verdict"),
    [
        (PAPER_A, PAPER_ALPHA, "reproduced"),
        (14.0, 0.69, "not reproduced"),
        (3 * PAPER_A, PAPER_ALPHA, "not reproduced"),
    ],
)
def test_law(tmp_path: Path, a: float, alpha: float, verdict: str) -> None:
    runs = {}
    for label, settings in GPTLaw().settings("cpu").items():
        longer = replace(settings, training=replace(settings.training, steps=4 * settings.training.steps))
        tau = a * settings.data.n**alpha * 9 ** (1 / 12)  # the copy rate crosses 0.1 at a·N^α
        runs[label] = written(tmp_path / label, longer, 30.0, tau)
    measured = GPTLaw().measure_claim(runs)
    assert measured.verdict == verdict, measured.sentence
    assert measured.values["alpha"] == pytest.approx(alpha, abs=0.05)
    few = dict(list(runs.items())[:2])
    assert GPTLaw().measure_claim(few).verdict == "unfinished"


def test_law_runs_past_the_predicted_clock() -> None:
    for n, settings in zip(SIZES, GPTLaw().settings("cpu").values(), strict=True):
        assert settings.data.n == n and settings.training.steps > 3 * PAPER_A * n**PAPER_ALPHA


@pytest.mark.parametrize(
    ("exact", "variable", "verdict"),
    [(500, 600, "reproduced"), (300, 600, "reproduced"), (2000, 600, "not reproduced"), (500, 350, "not reproduced")],
)
def test_counting(tmp_path: Path, exact: float, variable: float, verdict: str) -> None:
    taus = {"parity-g2": 500.0, "row-k3": 450.0, "row-variable-k23": variable}
    runs = {
        label: written(tmp_path / label, settings, taus.get(label, exact), 1e9)
        for label, settings in Counting().settings("cpu").items()
    }
    assert Counting().measure_claim(runs).verdict == verdict
    runs.pop("exact-k6")
    assert Counting().measure_claim(runs).verdict == "unfinished"


@pytest.mark.parametrize(
    ("row", "column", "alone", "verdict"),
    [
        (2000, 8000, 500, "reproduced"),
        (2000, 1e9, 500, "reproduced"),  # columns never come
        (8000, 2000, 500, "not reproduced"),
        (1e9, 1e9, 500, "unfinished"),  # neither comes
        (2000, 8000, 2000, "not reproduced"),
    ],
)
def test_structured(tmp_path: Path, row: float, column: float, alone: float, verdict: str) -> None:
    runs = {}
    for label, settings in Structured().settings("cpu").items():
        latin = label.startswith("row-latin")
        parts = {"row": alone} if latin else {"row": row, "column": column}
        runs[label] = written(tmp_path / label, settings, alone if latin else max(row, column), 1e9, parts=parts)
    measured = Structured().measure_claim(runs)
    assert measured.verdict == verdict, measured.sentence
    json.dumps(measured.values, allow_nan=False)
    runs.popitem()
    assert Structured().measure_claim(runs).verdict == "unfinished"


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
    assert two_clocks.__doc__
    for name, recipe in RECIPES.items():
        assert recipe.claim and recipe.paper and recipe.criterion, name
