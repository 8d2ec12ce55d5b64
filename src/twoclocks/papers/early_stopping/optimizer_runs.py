"""The runs that compare Adam with gradient descent (SGD): one hidden layer over P, and D3PM on a grammar.

P2 compares optimizers at the largest rates at which they converge. ``studies/stable_rates.py`` searches for them and
writes ``results/stable_rates.json``; they are copied here, and a test compares. One hidden layer is also compared at
small, constant rates, where training follows the gradient flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twoclocks.papers.early_stopping.kernel_runs import SIZES, AxisRuns, evaluated, is_on, seeded
from twoclocks.papers.early_stopping.runs import NARROW
from twoclocks.papers.early_stopping.runs import evaluated as evaluated_on_grammar
from twoclocks.papers.grids import grid
from twoclocks.papers.records import Record, Records
from twoclocks.papers.scales import Scale
from twoclocks.runs.columns import LOSS_TRAIN
from twoclocks.sweeps.grid import Cell

LAZY, GRAMMAR, STRINGS = "p2-kernel", "p2-rhm-optimizers-authors", 2048
STARTING_LOSS = 1.05  # an untrained network predicts 0, and the loss is 1; with 5% for noise
SMALL_RATE = 0.1  # of Adam; gradient descent has the preset's
# By optimizer: the largest rate that converges at each P.
STABLE_RATES: dict[str, dict[int, float]] = {
    "sgd": {128: 282.842712474619, 512: 336.35856610148585, 2048: 336.35856610148585},
    "adam": {128: 0.8, 512: 1.1313708498984762, 2048: 1.3454342644059434},
}
# On the grammar, by name: the settings of the optimizer, with its largest stable rate.
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "Adam": {"training.optimizer": "adam", "training.learning_rate": 0.4},
    "SGD": {"training.optimizer": "sgd", "training.learning_rate": 672.7171322029717, "training.momentum": 0.0},
    "SGD, momentum 0.9": {
        **{"training.optimizer": "sgd", "training.learning_rate": 67.27171322029716, "training.momentum": 0.9},
    },
}
# Evaluations, close together where copies rise.
GRAMMAR_STEPS = (64, 512, 4096, 16_384, 32_768, 49_152, 65_536, 81_920, *range(98_304, 204_801, 8_192))
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
    if scale.networks:  # rates of large networks are not those of small ones
        return
    for n in STABLE_RATES["sgd"]:
        for optimizer, rates in STABLE_RATES.items():
            for seed in scale.seeds(3):
                # At such rates the gap opens within tens or hundreds of steps.
                early = {"evaluation.first": 1, "evaluation.evaluations": 80}
                yield optimizer_cell(scale, n, optimizer, rates[n], max(600, 2 * n), seed, **early)


@grid("rhm-optimizers", 7, "the grammar (24, 12, 3, 3): Adam, and gradient descent without and with momentum")
def rhm_optimizers(scale: Scale) -> Iterator[Cell]:
    for n in scale.copied_sizes((STRINGS,)):
        for chosen in OPTIMIZERS.values():
            for seed in scale.seeds(3):
                shared = {**NARROW, "training.steps": GRAMMAR_STEPS[-1], **evaluated_on_grammar(44, 64, samples=1024)}
                shared |= {"evaluation.steps": GRAMMAR_STEPS, "clocks.stop": "memory", "clocks.memory_threshold": 0.25}
                yield scale.cell(GRAMMAR, {"data.n": n, "training.seed": seed, **chosen}, shared)


def small_rate_runs(records: Records, optimizer: str) -> AxisRuns:
    """One hidden layer over P at a small, constant rate."""
    rate = SMALL_RATE if optimizer == "adam" else records.preset_settings(LAZY)["training.learning_rate"]
    return lazy_runs(records, optimizer, dict.fromkeys({one.n for one in records}, rate))


def stable_rate_runs(records: Records, optimizer: str) -> AxisRuns:
    """One hidden layer over P at the largest stable rates."""
    return lazy_runs(records, optimizer, STABLE_RATES[optimizer])


def lazy_runs(records: Records, optimizer: str, rates: dict[int, float]) -> AxisRuns:
    """Full-batch runs over P in the lazy limit at P2's noise, with these rates; none that ``exploded``."""
    same = records.baseline(LAZY, (*OPTIMIZER, "training.batch"), training__optimizer=optimizer)
    found = [
        one
        for one in same
        if one.value("training.learning_rate") == rates.get(one.n)
        and one.value("training.momentum") in (None, 0.0)
        and not exploded(one)
        and one.run.series().gaps is not None
        and is_on(one, "size", one.n)
    ]
    return AxisRuns("size", tuple(sorted(found, key=lambda one: (one.n, one.seed))))


def exploded(one: Record) -> bool:
    """Whether a run diverged, or its training loss rose above where it began: its gap is no onset of memory."""
    if one.run.status["status"] == "diverged":
        return True
    losses = one.run.metrics().get(LOSS_TRAIN)
    return losses is not None and bool((losses > STARTING_LOSS).any())


def exploded_runs(records: Records, optimizer: str, rates: dict[int, float]) -> int:
    """How many runs at these rates exploded: such a rate was not stable."""
    same = records.baseline(LAZY, (*OPTIMIZER, "training.batch"), training__optimizer=optimizer)
    return sum(one.value("training.learning_rate") == rates.get(one.n) and exploded(one) for one in same)
