"""B6 on optimizers: claims on onsets whose law is known, for one hidden layer and for a grammar, and their figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.simulated import clocks_run, records
from papers.test_b06_kernel import gap_run

from twoclocks.papers.early_stopping.b06_grammar import OptimizersAlike
from twoclocks.papers.early_stopping.b06_optimizers import SamePower, SamePowerAtLargestRates, SamePowerAtSmallRates
from twoclocks.papers.early_stopping.fig15_optimizers import GrammarOptimizers
from twoclocks.papers.early_stopping.fig16_lazy import LazyLimit
from twoclocks.papers.early_stopping.fig19_optimizers import KernelOptimizers
from twoclocks.papers.early_stopping.kernel_runs import kernel_noise, kernel_size
from twoclocks.papers.early_stopping.optimizer_runs import OPTIMIZERS, kernel_adam, kernel_stable, rhm_optimizers
from twoclocks.papers.figure import MissingRunsError
from twoclocks.papers.rows import StoredRun
from twoclocks.papers.scales import GPU, Scale
from twoclocks.sweeps.grid import Cell

Cells = Callable[[Scale], Iterable[Cell]]
SMALL: tuple[Cells, ...] = (kernel_size, kernel_adam)
LARGEST: tuple[Cells, ...] = (kernel_stable,)


def lazy_runs(folder: Path, grids: tuple[Cells, ...], adam: float) -> list[StoredRun]:
    """The runs of grids: τ ∝ P with gradient descent, and a third of it with this power with Adam; 3% of scatter."""
    rng, found = np.random.default_rng(2), []
    for cell in (cell for make in grids for cell in make(GPU)):
        n, with_adam = cell.point["data.n"], cell.settings.training.optimizer == "adam"
        tau = 4000 * (n / 512) ** (adam if with_adam else 1.0) / (3 if with_adam else 1)
        found.append(gap_run(folder, cell.settings.name, cell.point, tau * math.exp(0.03 * rng.normal())))
    return found


@pytest.mark.parametrize(("claim", "grids"), [(SamePowerAtSmallRates, SMALL), (SamePowerAtLargestRates, LARGEST)])
@pytest.mark.parametrize(("adam", "expected"), [(1.0, "reproduced"), (0.5, "refuted"), (1.4, "refuted")])
def test_the_power_of_adam_is_held_against_that_of_gradient_descent(
    tmp_path: Path, claim: type[SamePower], grids: tuple[Cells, ...], adam: float, expected: str
) -> None:
    runs = lazy_runs(tmp_path, grids, adam)
    found = claim().judge(records(runs))
    assert found.verdict == expected, found
    assert found.values["difference"]["power"] == pytest.approx(adam - 1, abs=0.05)
    without = [one for one in runs if one.settings.training.optimizer == "sgd"]
    assert claim().judge(records(without)).verdict == "not run"


def test_rates_do_not_mix(tmp_path: Path) -> None:
    both = [*lazy_runs(tmp_path / "small", SMALL, 1.0), *lazy_runs(tmp_path / "largest", LARGEST, 0.5)]
    assert SamePowerAtSmallRates().judge(records(both)).verdict == "reproduced"
    assert SamePowerAtLargestRates().judge(records(both)).verdict == "refuted"


def grammar_runs(folder: Path, tau: dict[str, float], **more: Any) -> list[StoredRun]:
    """Three seeds of every optimizer, with its τ_mem."""
    found, rng = [], np.random.default_rng(3)
    for cell in rhm_optimizers(GPU):
        name = next(name for name, chosen in OPTIMIZERS.items() if chosen.items() <= cell.point.items())
        memory = tau[name] * math.exp(0.03 * rng.normal())
        found.append(clocks_run(folder, cell.settings.name, cell.point, math.inf, memory, 262_144, **more))
    return found


@pytest.mark.parametrize(
    ("plain", "momentum", "expected"),
    [
        (60_000, 50_000, "reproduced"),
        (60_000, 200_000, "refuted"),
        (15_000, 40_000, "refuted"),
        (80_000, 50_000, "undecided"),
    ],
)
def test_optimizers_on_a_grammar(tmp_path: Path, plain: float, momentum: float, expected: str) -> None:
    """Adam copies from step 40,000 on; a factor of 2 is the border."""
    tau = {"Adam": 40_000, "SGD": plain, "SGD, momentum 0.9": momentum}
    found = OptimizersAlike().judge(records(grammar_runs(tmp_path, tau)))
    assert found.verdict == expected, found


def test_a_rate_that_diverges_was_not_stable(tmp_path: Path) -> None:
    tau = dict.fromkeys(OPTIMIZERS, 40_000.0)
    runs = grammar_runs(tmp_path, tau)
    lost = grammar_runs(tmp_path / "lost", tau, status="diverged")[:1]
    found = OptimizersAlike().judge(records([*lost, *runs[1:]]))
    assert found.verdict == "undecided" and "1 runs diverged" in found.measured
    assert OptimizersAlike().judge(records(runs[:6])).verdict == "not run"


def test_figures_say_what_the_claims_say(tmp_path: Path) -> None:
    lazy = lazy_runs(tmp_path, (*SMALL, *LARGEST), 0.5)
    for cell in kernel_noise(GPU):
        lazy.append(gap_run(tmp_path, cell.settings.name, cell.point, 300 / cell.point["objective.sigma"]))
    optimizers = KernelOptimizers()
    info = optimizers.data(records(lazy))
    assert "SGD P^1.0" in optimizers.caption(info) and "Adam P^0.5" in optimizers.caption(info)
    assert len(optimizers.draw(info).axes) == 2
    limit = LazyLimit()
    columns = limit.data(records(lazy))
    assert [one.axis for one in columns.columns] == ["noise", "size"] and "P2 says -1" in limit.caption(columns)
    assert len(limit.draw(columns).axes) == 4
    grammar = GrammarOptimizers()
    copies = grammar.data(records(grammar_runs(tmp_path, dict.fromkeys(OPTIMIZERS, 40_000.0))))
    assert len(grammar.draw(copies).axes[0].lines) == 9 and "SGD, momentum 0.9, rate" in grammar.caption(copies)
    for figure in (optimizers, limit, grammar):
        with pytest.raises(MissingRunsError):
            figure.data(records([]))  # type: ignore[attr-defined]
