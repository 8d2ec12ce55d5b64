"""B6 on optimizers: claims on onsets whose law is known, for one hidden layer and for a grammar, and their figures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.simulated import clocks_run, records, simulated_run
from papers.test_b06_kernel import gap_run

from twoclocks.papers.early_stopping.b06_grammar import OptimizersAlike
from twoclocks.papers.early_stopping.b06_optimizers import SamePower, SamePowerAtLargestRates, SamePowerAtSmallRates
from twoclocks.papers.early_stopping.fig15_optimizers import GrammarOptimizers
from twoclocks.papers.early_stopping.fig16_lazy import LazyLimit
from twoclocks.papers.early_stopping.fig19_optimizers import KernelOptimizers
from twoclocks.papers.early_stopping.kernel_runs import kernel_noise, kernel_size
from twoclocks.papers.early_stopping.optimizer_runs import (
    OPTIMIZERS,
    STABLE_RATES,
    kernel_adam,
    kernel_stable,
    rhm_optimizers,
)
from twoclocks.papers.early_stopping.runs import WIDTH
from twoclocks.papers.figure import MissingRunsError
from twoclocks.papers.scales import GPU, Scale
from twoclocks.runs.rows import StoredRun
from twoclocks.sweeps.grid import Cell

Cells = Callable[[Scale], Iterable[Cell]]
RATES = {"sgd": {128: 300.0, 512: 300.0, 2048: 300.0}, "adam": {128: 8.0, 512: 4.0, 2048: 2.0}}
CHOSEN: dict[str, dict[str, Any]] = {
    "Adam": {"training.optimizer": "adam", "training.learning_rate": 0.5},
    "SGD": {"training.optimizer": "sgd", "training.momentum": 0.0, "training.learning_rate": 900.0},
    "SGD, momentum 0.9": {"training.optimizer": "sgd", "training.momentum": 0.9, "training.learning_rate": 90.0},
}
SEARCHED_RATES, SEARCHED = dict(STABLE_RATES), dict(OPTIMIZERS)  # before the tests put theirs in
SMALL: tuple[Cells, ...] = (kernel_size, kernel_adam)
LARGEST: tuple[Cells, ...] = (kernel_stable,)


@pytest.fixture(autouse=True)
def searched() -> Iterator[None]:
    """Rates as if they had been searched for. The tables are filled again in their own order, which pages show."""
    tables: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = ((STABLE_RATES, RATES), (OPTIMIZERS, CHOSEN))
    before = [dict(table) for table, _ in tables]
    for table, chosen in tables:
        table.clear()
        table.update(chosen)
    yield
    for (table, _), stored in zip(tables, before, strict=True):
        table.clear()
        table.update(stored)


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
    shorter = [one for one in runs if one.settings.data.n != 2048]
    assert claim().judge(records(shorter)).verdict in ("undecided", "not run")  # a P that was planned is missing
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
        point = {"model.width": WIDTH, **cell.point}
        found.append(clocks_run(folder, cell.settings.name, point, math.inf, memory, 262_144, **more))
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
    slow = grammar_runs(tmp_path / "slow", {**tau, "SGD": 200_000})
    assert OptimizersAlike().judge(records(slow)).verdict == "refuted"
    assert OptimizersAlike().judge(records([*lost, *slow[1:]])).verdict == "undecided"
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


def test_other_sizes_widths_and_rates_do_not_enter(tmp_path: Path) -> None:
    runs = grammar_runs(tmp_path, dict.fromkeys(OPTIMIZERS, 40_000.0))
    others: tuple[dict[str, Any], ...] = ({"data.n": 256}, {"model.width": 64}, {"training.learning_rate": 7.0})
    for k, change in enumerate(others):
        for cell in rhm_optimizers(GPU):
            point = {"model.width": WIDTH, **cell.point, **change}
            runs.append(clocks_run(tmp_path / str(k), cell.settings.name, point, math.inf, 2_000, 262_144))
    lost = {"model.width": WIDTH, **next(iter(rhm_optimizers(GPU))).point, "training.learning_rate": 9.0}
    runs.append(clocks_run(tmp_path, "p2-rhm-optimizers-authors", lost, math.inf, 2_000, 262_144, status="diverged"))
    found = OptimizersAlike().judge(records(runs))
    assert found.verdict == "reproduced" and found.seeds == 3, found


def test_a_loss_that_explodes_first_is_no_onset(tmp_path: Path) -> None:
    """At too large a rate the losses jump up and apart at once; what parts there is no memory."""
    runs = lazy_runs(tmp_path, LARGEST, 1.0)
    assert SamePowerAtLargestRates().judge(records(runs)).verdict == "reproduced"
    cell = next(cell for cell in kernel_stable(GPU) if cell.settings.training.optimizer == "adam")
    steps = [1, 2, 4, 8, 16, 32, 64]
    ones = np.ones(len(steps))
    columns = {
        **{"sample_accuracy": ones, "sample_memorization": 0 * ones, "valid_new": ones},
        **{"loss_train": [1195, 276, 40, 5, 2, 1, 0.9], "loss_held_out": [994, 480, 60, 9, 5, 3, 2]},
    }
    other = {**cell.point, "training.seed": 7, "data.seed": 7}
    runs.append(simulated_run(tmp_path, cell.settings.name, other, steps, columns))  # type: ignore[arg-type]
    found = SamePowerAtLargestRates().judge(records(runs))
    assert found.verdict == "undecided" and "1 runs exploded" in found.measured, found


def test_the_same_power_must_be_a_linear_one(tmp_path: Path) -> None:
    """P2 says that both scale linearly; two equal square roots are not that."""
    rng, runs = np.random.default_rng(4), []
    for cell in (cell for make in SMALL for cell in make(GPU)):
        tau = 4000 * (cell.point["data.n"] / 512) ** 0.5 * math.exp(0.03 * rng.normal())
        runs.append(gap_run(tmp_path, cell.settings.name, cell.point, tau))
    assert SamePowerAtSmallRates().judge(records(runs)).verdict == "refuted"


def test_rates_are_those_of_the_search() -> None:
    """Once the search has been run and committed, the grids use its rates."""
    path = Path(__file__).parents[2] / "results" / "stable_rates.json"
    searched = json.loads(path.read_text())["searches"] if path.is_file() else {}
    rates = {name: one["largest"] for name, one in searched.items()}
    kernel = {f"kernel-{name}-p{n}": rate for name, found in SEARCHED_RATES.items() for n, rate in found.items()}
    names = {"Adam": "grammar-adam", "SGD": "grammar-sgd-0", "SGD, momentum 0.9": "grammar-sgd-0.9"}
    grammar = {names[name]: chosen["training.learning_rate"] for name, chosen in SEARCHED.items()}
    assert {**kernel, **grammar} == pytest.approx(rates)
