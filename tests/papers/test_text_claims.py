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


def made(
    folder: Path,
    preset: str,
    copied: float,
    parted: float,
    sizes: tuple[int, ...] = SIZES,
    last: dict[int, int] | None = None,
    change: Any = lambda n, seed: {},
) -> Records:
    """Copies begin at 1,280 steps times a power of N/64, and losses part at half of that times another power.

    ``last``: the last step of some N, in place of 256 N; ``change(n, seed)``: settings that differ from the preset.
    """
    runs = []
    for n in sizes:
        for seed in range(3):
            scatter = 1 + 0.02 * (seed - 1)
            memory, parting = (1280 * (n / 64) ** power * scatter for power in (copied, parted))
            steps = log_steps(32, (last or {}).get(n, 256 * n))
            gap = rise(steps, parting / 2)
            columns: dict[str, Any] = {"sample_memorization": rise(steps, memory), "loss_train": 1 - 0 * gap}
            columns |= {"loss_held_out": 1.1 + gap, "loss_gap_error": np.full(len(steps), 0.01)}
            point = {"data.n": n, "data.seed": seed, "training.seed": seed, "clocks.above_chance": True}
            point |= change(n, seed)
            if point.pop("lost", False):
                continue
            status = "diverged" if point.pop("diverged", False) else "finished"
            runs.append(simulated_run(folder, preset, point, steps, columns, status=status))
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


@pytest.mark.parametrize(("preset", "make", "runs"), [(MD4, text_sizes, 13), (GPT, text_sizes_gpt, 15)])
def test_the_grids_have_five_sizes_and_seeds_and_end_when_copying_begins(preset: str, make: Any, runs: int) -> None:
    """Three seeds each, but two of the runs of MD4 that take minutes."""
    cells = list(make(GPU))
    assert len(cells) == runs and {cell.settings.data.n for cell in cells} == set(SIZES)
    assert {cell.settings.clocks.stop for cell in cells} == {"memory"} and {cell.settings.name for cell in cells} == {
        preset
    }
    assert {(cell.settings.data.seed, cell.settings.training.seed) for cell in cells} == {(0, 0), (1, 1), (2, 2)}


@pytest.mark.parametrize("preset", CLAIMS)
def test_an_n_that_never_copies_is_not_left_out_silently(tmp_path: Path, preset: str) -> None:
    """The N that copy late are those that contradict proportionality."""
    found = CLAIMS[preset]().judge(made(tmp_path, preset, 1.0, 1.0, last={1024: 4096}))
    assert found.verdict == "undecided" and "not reached by every seed at N = 1,024" in found.measured
    refuted = CLAIMS[preset]().judge(made(tmp_path / "other", preset, 1.5, 1.0, last={1024: 4096}))
    assert refuted.verdict == "refuted"


@pytest.mark.parametrize(("parted", "verdict"), [(1.0, "undecided"), (0.5, "refuted")])
def test_losses_are_judged_where_copies_come_too_late(tmp_path: Path, parted: float, verdict: Verdict) -> None:
    """P2's clock on text is the loss gap: runs that end before their copies decide on it, and never confirm both."""
    short = {n: 640 * n // 64 for n in SIZES if n >= 256}  # half of the steps at which copies begin
    found = LinearInTextsMasked().judge(made(tmp_path, MD4, 1.0, parted, last=short))
    assert found.verdict == verdict and "copies begin at too few N for a law (there: 64, 128)" in found.measured
    assert "15 runs, P 64–1,024" in found.measured  # the law of losses has all sizes


def test_one_seed_that_never_copies_is_enough(tmp_path: Path) -> None:
    runs = made(tmp_path, GPT, 1.0, 1.0)
    short = made(tmp_path / "short", GPT, 1.0, 1.0, sizes=(1024,), last={1024: 4096})
    mixed = [one.run for one in runs if (one.n, one.seed) != (1024, 0)] + [one.run for one in short if one.seed == 0]
    assert LinearInTextsCausal().judge(records(mixed)).verdict == "undecided"


@pytest.mark.parametrize(
    "change",
    [
        lambda n, seed: {"evaluation.copy_run": n // 8},  # another criterion at every N
        lambda n, seed: {"evaluation.copy_run": 4},
        lambda n, seed: {"training.batch": 16},
        lambda n, seed: {"diverged": True},
    ],
)
def test_other_criteria_of_copies_and_other_settings_do_not_count(tmp_path: Path, change: Any) -> None:
    found = LinearInTextsCausal().judge(made(tmp_path, GPT, 1.0, 1.0, change=change))
    assert found.verdict == "not run", found.measured


def test_the_size_with_the_fewest_seeds_decides_how_often_it_was_seen(tmp_path: Path) -> None:
    runs = made(tmp_path, GPT, 1.0, 1.0, change=lambda n, seed: {"lost": n == 256 and seed > 0})
    found = LinearInTextsCausal().judge(runs)
    assert found.verdict == "seen once" and found.seeds == 1
