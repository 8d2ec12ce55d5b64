"""B7 and B8 on images and Fig. 1 of P2, on simulated runs with a known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import log_steps, records, rise, simulated_run

from twoclocks.papers.claim import Verdict
from twoclocks.papers.early_stopping.b07_images import LinearInImages
from twoclocks.papers.early_stopping.b08_quality import BestAtMemory
from twoclocks.papers.early_stopping.fig01_images import ImagesOverTraining
from twoclocks.papers.early_stopping.image_runs import DIGITS, SIZES, image_runs, images_sizes
from twoclocks.papers.records import Records
from twoclocks.papers.scales import GPU
from twoclocks.runs.rows import StoredRun

EARLIER = 9 ** (-1 / 8)


def image_run(folder: Path, n: int, seed: int, memory: float, best: float, part: int = 0) -> StoredRun:
    """A run that begins to copy at ``memory``; held-out loss and Fréchet distance are lowest at ``best``."""
    steps = log_steps(64, 192 * n)
    copies = rise(steps, memory / EARLIER)
    valley = 0.2 + 0.1 * np.abs(np.log(np.asarray(steps) / best))
    columns: dict[str, Any] = {"sample_memorization": copies, "frechet": 10 * valley, "loss_held_out": valley}
    columns |= {"frechet_error": 0 * valley, "loss_train": valley - 0.1 * rise(steps, memory)}
    change = {"data.n": n, "data.seed": seed, "training.seed": seed, "data.part": part}
    return simulated_run(folder, DIGITS, change, steps, columns)


def made(folder: Path, power: float, best: float = 1.0, sizes: tuple[int, ...] = SIZES, seeds: int = 3) -> Records:
    """τ_mem = 20·N^power (at N = 64 the same for every power), best at ``best`` times τ_mem."""
    runs = []
    for n in sizes:
        for seed in range(seeds):
            memory = 1280 * (n / 64) ** power * (1 + 0.02 * (seed - 1))
            runs.append(image_run(folder, n, seed, memory, best * memory))
    return records(runs)


@pytest.mark.parametrize(
    ("power", "sizes", "seeds", "verdict"),
    [
        (1.0, SIZES, 3, "reproduced"),
        (1.0, SIZES, 1, "seen once"),
        (1.4, SIZES, 3, "refuted"),
        (0.5, SIZES, 3, "refuted"),
        (1.0, SIZES[:3], 3, "not run"),
    ],
)
def test_proportional_onsets_and_others(
    tmp_path: Path, power: float, sizes: tuple[int, ...], seeds: int, verdict: Verdict
) -> None:
    found = LinearInImages().judge(made(tmp_path, power, sizes=sizes, seeds=seeds))
    assert found.verdict == verdict, found.measured
    if verdict != "not run":
        assert found.values["copies"]["alpha"] == pytest.approx(power, abs=0.06)
        assert found.values["gap"]["alpha"] == pytest.approx(power, abs=0.06)


@pytest.mark.parametrize(
    ("best", "seeds", "verdict"),
    [(1.0, 3, "reproduced"), (0.7, 3, "reproduced"), (0.2, 3, "refuted"), (6.0, 3, "refuted"), (1.0, 1, "seen once")],
)
def test_quality_is_best_at_memory_or_not(tmp_path: Path, best: float, seeds: int, verdict: Verdict) -> None:
    found = BestAtMemory().judge(made(tmp_path, 1.0, best, seeds=seeds))
    assert found.verdict == verdict, found.measured


def test_a_quality_that_is_best_at_the_end_of_a_run_decides_nothing(tmp_path: Path) -> None:
    """It may fall on; here copying begins at two thirds of the run, within the factor of 2."""
    runs = [image_run(tmp_path, n, seed, 128 * n, 1e9) for n in SIZES for seed in range(3)]
    found = BestAtMemory().judge(records(runs))
    assert found.verdict == "undecided", found.measured


def test_without_runs_nothing_is_said_and_twins_are_not_counted_twice(tmp_path: Path) -> None:
    for claim in (LinearInImages(), BestAtMemory()):
        assert claim.judge(records([])).verdict == "not run"
    both = records([image_run(tmp_path, 256, 0, 5000, 5000, part) for part in (0, 1)])
    assert len(image_runs(both)) == 1


def test_the_grid_has_four_sizes_and_three_seeds_of_data_and_training() -> None:
    cells = list(images_sizes(GPU))
    assert len(cells) == 12 and {cell.settings.data.n for cell in cells} == set(SIZES)
    assert all(cell.settings.data.seed == cell.settings.training.seed for cell in cells)


def test_the_figure_has_all_runs_and_its_clocks(tmp_path: Path) -> None:
    figure = ImagesOverTraining()
    info = figure.data(made(tmp_path, 1.0))
    assert info.sizes == list(SIZES) and len(info.runs) == 12
    drawn = figure.draw(info)
    losses, copies, quality, clocks = drawn.axes
    assert len(losses.lines) == 24 and len(copies.lines) == 12
    assert len(quality.lines) == 12 + 24  # curves, and two clocks per run
    assert len(clocks.lines) == 24 + 2 and "64, 128, 256, 512" in figure.caption(info)
