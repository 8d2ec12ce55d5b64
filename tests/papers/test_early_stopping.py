"""P2's recipes judge runs whose curves are known, and every preset of P2 really runs in a small form."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoclocks.cli import main
from twoclocks.clocks.window import Clocks
from twoclocks.papers.early_stopping import grammar
from twoclocks.papers.early_stopping.grammar import Layers, Sizes
from twoclocks.papers.recipe import Recipe, execute_recipe
from twoclocks.runs import Run, RunSettings, load_run, preset_names
from twoclocks.testing.runs import write_run


def rise(steps: np.ndarray, middle: float) -> np.ndarray:  # type: ignore[type-arg]
    return 1 / (1 + (steps / middle) ** -12.0)


def written(
    path: Path, settings: RunSettings, rule: float, memory: float, parts: Mapping[str, float] | None = None
) -> Run:
    """A run whose onsets lie near given steps; the copy rate rises from the chance level."""
    steps = np.array(settings.schedule, dtype=float)
    ones, chance = np.ones_like(steps), settings.rule.copy_chance(settings.data.n)
    columns = {
        "loss": ones,
        "sample_accuracy": rise(steps, rule),
        "sample_memorization": chance + (1 - chance) * rise(steps, memory),
        "valid_new": rise(steps, rule) * (1 - rise(steps, memory)),
        "loss_train": ones,
        "loss_held_out": ones + rise(steps, memory),
        "loss_gap_error": 0.001 * ones,
        **{f"{kind}_accuracy": rise(steps, tau) for kind, tau in (parts or {}).items()},
    }
    return write_run(path, settings, columns)


def runs_of(recipe: Recipe, path: Path, taus: Any) -> dict[str, Run]:
    """``taus`` maps settings to (rule, memory, parts)."""
    return {label: written(path / label, s, *taus(s)) for label, s in recipe.settings("cpu").items()}


NEVER = 1e9


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        ("as printed", "reproduced"),
        ("small sizes learn the rule first", "not reproduced"),
        ("large sizes copy first", "not reproduced"),
        ("memory follows the root of P", "not reproduced"),
    ],
)
def test_sizes(tmp_path: Path, case: str, verdict: str) -> None:
    def taus(settings: RunSettings) -> tuple[float, float, dict[str, float]]:
        n = settings.data.n
        memory = 8.0 * n if case != "memory follows the root of P" else 300 * math.sqrt(n)
        first = n >= 4096 if case != "small sizes learn the rule first" else True
        if case == "large sizes copy first":
            first = False
        return (memory / 5 if first else 3 * memory), memory, {}

    measured = Sizes().measure_claim(runs_of(Sizes(), tmp_path, taus))
    assert measured.verdict == verdict, measured.sentence
    json.dumps(measured.values, allow_nan=False)


def test_a_suspected_window_does_not_satisfy_a_claim_of_open_ones(tmp_path: Path) -> None:
    """As printed, but the last evaluation of every large run is above the threshold and the run ends there."""

    def taus(settings: RunSettings) -> tuple[float, float, dict[str, float]]:
        n = settings.data.n
        return (1.6 if n >= 4096 else 24.0) * n, 8.0 * n, {}

    runs = runs_of(Sizes(), tmp_path, taus)
    assert Sizes().measure_claim(runs).verdict == "reproduced"
    clocks_of = grammar.clocks_of

    def cut_short(run: Run) -> Clocks:
        found = clocks_of(run)
        if run.settings.data.n < 16_384:
            return found
        return replace(found, memory=replace(found.memory, upper=math.inf, status="right-censored"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammar, "clocks_of", cut_short)
        measured = Sizes().measure_claim(runs)
    assert measured.verdict == "not reproduced" and "copying suspected since step" in measured.sentence


@pytest.mark.parametrize(
    ("layers", "memory", "verdict"),
    [
        ((200, 2_000, 8_000, 40_000, 45_000), 20_000, "reproduced"),
        ((200, 8_000, 2_000, 40_000, 45_000), 20_000, "not reproduced"),  # out of order
        ((200, 2_000, 4_000, 8_000, 9_000), 20_000, "not reproduced"),  # the deepest is learned, not copied
        ((200, 40_000, 41_000, 42_000, 45_000), 20_000, "not reproduced"),  # but one comes by copying
        ((200, 2_000, 8_000, NEVER, NEVER), NEVER, "unfinished"),
    ],
)
def test_layers(tmp_path: Path, layers: tuple[float, ...], memory: float, verdict: str) -> None:
    parts = {f"layer_{level}": tau for level, tau in enumerate(layers, start=1)}
    measured = Layers().measure_claim(runs_of(Layers(), tmp_path, lambda settings: (layers[-1], memory, parts)))
    assert measured.verdict == verdict, measured.sentence


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
        from twoclocks.papers.recipe import Measurement

        (one,) = runs.values()
        return Measurement("reproduced", f"rate {one.settings.training.learning_rate}", {})


TINY: dict[str, RunSettings] = {}


def test_what_was_searched_for_is_kept_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from twoclocks.papers.recipe import RECIPES
    from twoclocks.runs import load_settings

    change = {"training.steps": 4, "evaluation.steps": [0, 2, 4], "evaluation.samples": 256, "model.width": 16}
    TINY["one"] = load_settings("demo-gpt", {**change, "model.depth": 1, "model.heads": 2})
    monkeypatch.setitem(RECIPES._members, "searching", Searching)
    sentences = [
        execute_recipe("searching", "cpu", tmp_path, tmp_path / "x.json", lambda line: None).sentence for _ in range(2)
    ]
    assert sentences == ["rate 0.01", "rate 0.01"]


SMALLER = {
    "p2-rhm": {"model.width": 16, "objective.sampler_levels": 4},
    "p2-md4": {"model.width": 16, "model.depth": 1, "model.heads": 2, "objective.sampler_levels": 4},
    "p2-kernel": {"model.width": 32, "rule.alphabet": 2048},
}


@pytest.mark.parametrize("preset", [name for name in preset_names() if name.startswith("p2-")])
def test_every_preset_of_p2_runs_in_a_small_form(preset: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = {
        "data.n": 64,
        "training.steps": 6,
        "training.batch": 8,
        "training.device": "cpu",
        "training.precision": "float32",
        "evaluation.steps": [0, 3, 6],
        "evaluation.samples": 300,
        "evaluation.loss_rows": 16,
    }
    chosen = {**shared, **next(more for name, more in SMALLER.items() if preset.startswith(name))}
    words = [word for key, value in chosen.items() for word in (f"--{key}", json.dumps(value))]
    assert main(["run", preset, "--out", "run", "--json", *words]) == 0, capsys.readouterr().err
    columns = load_run("run").metrics()
    assert np.isfinite(columns["loss_held_out"]).all() and len(columns["step"]) == 3
