"""B7 on text, for both kinds of models, on simulated runs with a known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import log_steps, records, rise, simulated_run

from twoclocks.papers.claim import Verdict
from twoclocks.papers.early_stopping.b07_text import LinearInTexts, LinearInTextsCausal, LinearInTextsMasked
from twoclocks.papers.early_stopping.text_runs import GPT, MD4, SIZES, text_sizes, text_sizes_gpt
from twoclocks.papers.records import Records
from twoclocks.papers.scales import GPU

CLAIMS: dict[str, type[LinearInTexts]] = {MD4: LinearInTextsMasked, GPT: LinearInTextsCausal}


def made(folder: Path, preset: str, copied: float, parted: float, sizes: tuple[int, ...] = SIZES) -> Records:
    """Copies begin at 1,280 steps times a power of N/64, and losses part at half of that times another power."""
    runs = []
    for n in sizes:
        for seed in range(3):
            scatter = 1 + 0.02 * (seed - 1)
            memory, parting = (1280 * (n / 64) ** power * scatter for power in (copied, parted))
            steps = log_steps(32, 256 * n)
            gap = rise(steps, parting / 2)
            columns: dict[str, Any] = {"sample_memorization": rise(steps, memory), "loss_train": 1 - 0 * gap}
            columns |= {"loss_held_out": 1.1 + gap, "loss_gap_error": np.full(len(steps), 0.01)}
            point = {"data.n": n, "data.seed": seed, "training.seed": seed, "clocks.above_chance": True}
            runs.append(simulated_run(folder, preset, point, steps, columns))
    return records(runs)


@pytest.mark.parametrize("preset", CLAIMS)
@pytest.mark.parametrize(
    ("copied", "parted", "sizes", "verdict"),
    [
        (1.0, 1.0, SIZES, "reproduced"),
        (1.5, 1.0, SIZES, "refuted"),  # both clocks must be proportional
        (1.0, 0.5, SIZES, "refuted"),
        (1.0, 1.0, SIZES[:3], "not run"),
    ],
)
def test_proportional_onsets_and_others(
    tmp_path: Path, preset: str, copied: float, parted: float, sizes: tuple[int, ...], verdict: Verdict
) -> None:
    found = CLAIMS[preset]().judge(made(tmp_path, preset, copied, parted, sizes))
    assert found.verdict == verdict, found.measured
    (other,) = (claim for name, claim in CLAIMS.items() if name != preset)
    assert other().judge(made(tmp_path, preset, copied, parted, sizes)).verdict == "not run"


@pytest.mark.parametrize(("preset", "make"), [(MD4, text_sizes), (GPT, text_sizes_gpt)])
def test_the_grids_have_five_sizes_and_three_seeds_and_end_when_copying_begins(preset: str, make: Any) -> None:
    cells = list(make(GPU))
    assert len(cells) == 15 and {cell.settings.data.n for cell in cells} == set(SIZES)
    assert {cell.settings.clocks.stop for cell in cells} == {"memory"} and {cell.settings.name for cell in cells} == {
        preset
    }
    assert {(cell.settings.data.seed, cell.settings.training.seed) for cell in cells} == {(0, 0), (1, 1), (2, 2)}
