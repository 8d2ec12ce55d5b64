"""The command ``twoclocks plan`` on run directories with known curves, and on experiments of ``twoclocks widen``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoclocks.cli import main
from twoclocks.runs import Run, load_settings
from twoclocks.testing.runs import write_run

SIZES = (64, 128, 256, 512)
SECONDS = 0.25  # per training step


def rise(steps: Any, tau: float, level: float, slope: float) -> Any:
    """Crosses ``level`` at ``tau``."""
    return 1 / (1 + (1 / level - 1) * (np.asarray(steps, dtype=float) / tau) ** -slope)


def write_pilot(path: Path, n: int, seed: int, tau: float, timed: bool = True) -> Run:
    """A run that learns the rule at step 50 and copies from ``tau`` on; every evaluation takes 3 s."""
    change = {"rule.length": 30, "data.n": n, "training.seed": seed, "training.steps": 20_000}
    settings = load_settings("demo-gpt", {**change, "evaluation.evaluations": 60, "evaluation.samples": 2048})
    steps = np.array(settings.schedule, dtype=float)
    columns = {
        "loss": np.ones(len(steps)),
        "sample_accuracy": rise(steps, 50, 0.85, 12),
        "sample_memorization": rise(steps, tau, 0.1, 6),
    }
    run = write_run(path, settings, columns)
    if timed:
        journal = run.directory.timings
        for number, step in enumerate(steps):
            seconds = SECONDS * step + 3.0 * (number + 1)
            journal.append({"step": int(step), "seconds": seconds, "evaluation_seconds": 3.0})
    return run


@pytest.fixture(scope="module")
def pilots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """τ_mem = 10·N up to 10%, two seeds a size."""
    folder, rng = tmp_path_factory.mktemp("pilots"), np.random.default_rng(0)
    for n in SIZES:
        for seed in (0, 1):
            write_pilot(folder / f"{n}-{seed}", n, seed, 10 * n * math.exp(0.1 * rng.standard_normal()))
    return folder


@pytest.fixture
def widen(tmp_path: Path) -> Path:
    def effect(ratio: float, low: float, high: float, found: bool) -> dict[str, Any]:
        return {"ratio": ratio, "interval": [low, high], "found": found}

    arms = [
        {"arm": "base", "effects": {}},
        {"arm": "dropout", "effects": {"memory": effect(2.0, 1.5, 2.5, True)}},
        {"arm": "registers", "effects": {"memory": effect(1.1, 0.8, 1.5, False)}},
    ]
    document = {"base": "demo-gpt", "n": 64, "rule": "parity", "questions": 2, "arms": arms}
    (tmp_path / "widen.json").write_text(json.dumps(document), encoding="utf-8")
    return tmp_path


def test_plan_in_steps(pilots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(pilots), "--n", "2048", "--budget", "90000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    memory = found["tau_mem"]
    assert memory["low"] < 20_480 < memory["high"] < 90_000 and found["stop"] == math.floor(memory["low"])
    assert (found["budget_and_tau_mem"], found["window"], found["budget_reaches_learning"]) == (
        "crosses",
        "open",
        "yes",
    )
    assert memory["left_out_sizes"]["tried"] == 8 and memory["left_out_largest"]["tried"] == 2
    assert found["learned"]["clock"] == "tau_rule" and found["learned"]["low"] < 50 < found["learned"]["high"]
    assert found["times_largest_pilot"] == 4 and found["budget"] == {"given": "90000", "steps": 90_000, "pace": None}
    assert main(["plan", str(pilots), "--n", "2048", "--budget", "90000"]) == 0
    lines = capsys.readouterr().out.split("\n")
    text = " ".join(" ".join(lines).split())
    advice = next(line for line in lines if line.startswith("Stop at step "))
    assert f"Stop at step {found['stop']:,}:" in advice and found["sentences"][0] == advice
    assert lines.index(advice) < next(
        k for k, line in enumerate(lines) if line.startswith("The budget of 90,000 steps")
    )
    assert "8 of 8 held, width ×" in text and "2 of 2 held, width ×" in text and "Warning" not in text


def test_plan_in_hours_uses_the_pace_of_the_pilots(pilots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, seconds in (("2h", 7200), ("30m", 1800), ("90s", 90)):
        assert main(["plan", str(pilots), "--n", "1024", "--budget", words, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["budget"]["steps"] == pytest.approx(seconds / SECONDS, abs=1)
        assert found["budget"]["pace"]["runs"] == 8 and found["budget"]["pace"]["median"] == pytest.approx(SECONDS)
    line = next(line for line in found["sentences"] if line.startswith("A budget of 90s is"))
    assert (
        "0.25 s per training step (median of 8 pilots)" in line and "machine and with the batch of the pilots" in line
    )
    assert found["budget_and_tau_mem"] == "safe" and found["sentences"][0].startswith("Train all ")


def test_plan_with_interventions(pilots: Path, widen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", str(pilots), "--n", "2048", "--budget", "20000", "--widen", str(widen)]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    dropout, registers = found["interventions"]
    assert dropout["stop"] == math.floor(found["tau_mem"]["low"] * 1.5) and registers["stop"] is None
    assert main([*words, "--widen", str(widen)]) == 0
    out = capsys.readouterr().out
    assert out.count(f"With dropout, stop at step {dropout['stop']:,}") == 2 and out.count("no effect found") == 2
    assert "With registers" not in out and "N = 64 on the base demo-gpt, rule parity" in out


def test_wrong_input_is_one_line(pilots: Path, widen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "widen.json").write_text("[]", encoding="utf-8")
    good = ["plan", str(pilots), "--n", "2048"]
    for words, expected in (
        *(([*good, "--budget", budget], f"--budget: {budget!r}") for budget in ("0", "2 days", "abc", "nan", "1e400")),
        ([*good, "--budget=-3"], "--budget: '-3' is not allowed"),
        *((["plan", str(pilots), f"--n={n}", "--budget", "9"], f"--n: {n} is not allowed") for n in (0, -2, 1)),
        (["plan", str(pilots / "64-0"), "--n", "99", "--budget", "9"], "at least 4 sizes"),
        (["plan", "nowhere", "--n", "99", "--budget", "9"], "nowhere"),
        ([*good, "--budget", "9", "--widen", str(tmp_path / "bad")], "is not the result of an experiment"),
        ([*good, "--budget", "9", "--widen", str(tmp_path / "nowhere")], "give a folder that 'twoclocks widen' wrote"),
        ([*good, "--budget", "9", "--jsn"], "did you mean '--json'"),
    ):
        assert main(words) == 2, words
        printed = capsys.readouterr()
        assert printed.out == "" and len(printed.err.strip().split("\n")) == 1 and expected in printed.err, printed.err
    for words in (["plan", str(pilots), "--budget", "9"], good, ["plan", str(pilots), "--n", "x", "--budget", "9"]):
        with pytest.raises(SystemExit, match="2"):
            main(words)
        assert len(capsys.readouterr().err.strip().split("\n")) == 1


def test_hours_without_timings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in SIZES:
        write_pilot(tmp_path / str(n), n, 0, 10.0 * n, timed=False)
    assert main(["plan", str(tmp_path), "--n", "1024", "--budget", "1h"]) == 2
    assert "no pilot stored how long its steps took; give a number of steps" in capsys.readouterr().err
    assert main(["plan", str(tmp_path), "--n", "1024", "--budget", "100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["budget_and_tau_mem"] == "safe"
