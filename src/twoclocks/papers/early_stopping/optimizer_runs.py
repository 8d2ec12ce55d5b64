"""The runs that compare Adam with gradient descent (SGD): one hidden layer over P, and D3PM on a grammar.

P2 compares optimizers at the largest rates at which they converge. ``studies/stable_rates.py`` searches for them and
writes ``results/stable_rates.json``; they are copied here. One hidden layer is also compared at small, constant rates,
where training follows the gradient flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twoclocks.papers.early_stopping.kernel_runs import SIZES, AxisRuns, evaluated, is_on, seeded
from twoclocks.papers.early_stopping.runs import HALF, NARROW
from twoclocks.papers.early_stopping.runs import evaluated as evaluated_on_grammar
from twoclocks.papers.grids import grid
from twoclocks.papers.records import Records
from twoclocks.papers.scales import Scale
from twoclocks.sweeps.grid import Cell

LAZY, GRAMMAR, STRINGS = "p2-kernel", "p2-rhm-optimizers-authors", 2048
SMALL_RATE = 0.1  # of Adam; gradient descent has the preset's
# By optimizer: the largest rate that converges at each P.
STABLE_RATES: dict[str, dict[int, float]] = {
    "sgd": {128: 400.0, 512: 672.7, 2048: 672.7},
    "adam": {128: 102.4, 512: 36.2, 2048: 21.5},
}
# On the grammar, by name: the settings of the optimizer.
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "Adam": {"training.optimizer": "adam", "training.learning_rate": 0.8},
    "SGD": {"training.optimizer": "sgd", "training.momentum": 0.0, "training.learning_rate": 1810.0},
    "SGD, momentum 0.9": {"training.optimizer": "sgd", "training.momentum": 0.9, "training.learning_rate": 190.3},
}
OPTIMIZER = ("training.optimizer", "training.learning_rate", "training.momentum")


def optimizer_cell(scale: Scale, n: int, optimizer: str, rate: float, steps: int, seed: int, **more: Any) -> Cell:
    """One hidden layer with an optimizer and its rate."""
    chosen = {"training.optimizer": optimizer, "training.learning_rate": rate}
    point = {"data.n": n, "training.batch": n, **chosen, **seeded(seed)}
    return scale.cell(LAZY, point, {**evaluated(steps), **more}, length=steps)


@grid("kernel-adam", 7, "one hidden layer over P with Adam at a small rate, beside gradient descent")
def kernel_adam(scale: Scale) -> Iterator[Cell]:
    for n in scale.sizes((*SIZES, 4096)):
        for seed in scale.seeds(3):
            yield optimizer_cell(scale, n, "adam", SMALL_RATE, 6 * n, seed)


@grid("kernel-stable", 7, "one hidden layer over P, Adam and gradient descent at their largest stable rates")
def kernel_stable(scale: Scale) -> Iterator[Cell]:
    sizes = (*STABLE_RATES["sgd"],)
    for planned, n in zip(sizes, scale.sizes(sizes), strict=False):
        for optimizer, rates in STABLE_RATES.items():
            for seed in scale.seeds(3):
                # At such rates the gap opens within tens or hundreds of steps.
                early = {"evaluation.first": 1, "evaluation.evaluations": 80}
                yield optimizer_cell(scale, n, optimizer, rates[planned], max(600, 2 * n), seed, **early)


@grid("rhm-optimizers", 7, "the grammar (24, 12, 3, 3): Adam, and gradient descent without and with momentum")
def rhm_optimizers(scale: Scale) -> Iterator[Cell]:
    for n in scale.copied_sizes((STRINGS,)):
        for chosen in OPTIMIZERS.values():
            for seed in scale.seeds(3):
                shared = {**NARROW, "training.steps": 262_144, **evaluated_on_grammar(44, 64), **HALF}
                yield scale.cell(GRAMMAR, {"data.n": n, "training.seed": seed, **chosen}, shared)


def small_rate_runs(records: Records, optimizer: str) -> AxisRuns:
    """One hidden layer over P at a small, constant rate."""
    rate = SMALL_RATE if optimizer == "adam" else records.preset_settings(LAZY)["training.learning_rate"]
    return lazy_runs(records, optimizer, dict.fromkeys({one.n for one in records}, rate))


def stable_rate_runs(records: Records, optimizer: str) -> AxisRuns:
    """One hidden layer over P at the largest stable rates."""
    rates = STABLE_RATES[optimizer]
    sizes = records.scale.sizes((*rates,))
    return lazy_runs(records, optimizer, dict(zip(sizes, rates.values(), strict=False)))


def lazy_runs(records: Records, optimizer: str, rates: dict[int, float]) -> AxisRuns:
    """Full-batch runs over P in the lazy limit at P2's noise, with these rates; one that diverged is no such run."""
    same = records.baseline(LAZY, (*OPTIMIZER, "training.batch"), training__optimizer=optimizer)
    found = [
        one
        for one in same
        if one.value("training.learning_rate") == rates.get(one.n)
        and one.value("training.momentum") in (None, 0.0)
        and one.run.status["status"] != "diverged"
        and one.run.series().gaps is not None
        and is_on(one, "size", one.n)
    ]
    return AxisRuns("size", tuple(sorted(found, key=lambda one: (one.n, one.seed))))
