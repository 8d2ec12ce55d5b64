"""Every preset of P2 really runs in a small form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from twoclocks.cli import main
from twoclocks.runs import load_run, preset_names

SMALLER = {
    "p2-rhm": {"model.width": 16, "objective.sampler_levels": 4},
    "p2-md4": {"model.width": 16, "model.depth": 1, "model.heads": 2, "objective.sampler_levels": 4},
    "p2-digits": {"model.width": 8, "objective.sampler_levels": 3},
    "p2-c": {"model.width": 8, "model.blocks": 1, "objective.sampler_levels": 3, "evaluation.samples": 100},  # 32×32
    "p2-kernel": {"model.width": 32, "rule.alphabet": 2048},
}


@pytest.mark.parametrize("preset", [name for name in preset_names() if name.startswith("p2-")])
def test_every_preset_of_p2_runs_in_a_small_form(
    preset: str, work: Path, files_of_the_user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in files_of_the_user.iterdir():
        (work / file.name).symlink_to(file)
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
