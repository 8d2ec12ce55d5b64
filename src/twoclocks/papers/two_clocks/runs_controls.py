"""Runs that a strict reviewer asks for: controls that P1 does not have, and the third seed of its claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twoclocks.papers.grids import grid
from twoclocks.papers.scales import Scale
from twoclocks.papers.two_clocks.runs import (
    AT_MEMORY,
    COUNTING,
    DIT,
    GPT,
    evaluated,
    law_run,
    networks_of_all_sizes,
    until_copying,
)
from twoclocks.sweeps.grid import Cell


@grid("counting-averaged", 14, "counting rules with a moving average of the weights, evaluated beside the raw ones")
def counting_averaged(scale: Scale) -> Iterator[Cell]:
    triples = {"name": "parity", "length": 36, "group": 3}
    for rule in scale.thinned((*COUNTING, triples)):
        steps, first = (30_000, 1_000) if rule == triples else (8_000, 100)
        shared = {"training.steps": steps, **evaluated(60, first), "training.average": 0.999}
        for seed in scale.seeds(3):
            for n in scale.sizes((4096,)):
                yield scale.cell(DIT, {"rule": rule, "data.n": n, "training.seed": seed}, shared)


@grid("recombination-omitted", 14, "G = 4 with one of the 8 group contents removed from training")
def recombination_omitted(scale: Scale) -> Iterator[Cell]:
    shared = {"training.steps": 200_000, **evaluated(60, 2_000), "clocks.stop": "rule"}
    for n in scale.sizes((4096,)):
        for seed in scale.seeds(3):
            yield scale.cell(DIT, {"rule.group": 4, "data.n": n, "data.omit": 1, "training.seed": seed}, shared)


CONTROLS: tuple[Mapping[str, Any], ...] = (
    {"rule.scatter_seed": 0},  # positions permuted, so that n-grams cannot see the rule
    {"rule": {"name": "code_book", "length": 36, "group": 6, "seed": 0}},  # as many words as parity, and no rule
    {"rule.group": 6},  # to be compared with the code book
    {"data.part": 1},  # training sets of different N have no sample in common
    {"training.average": 0.999},
)


@grid("controls", 14, "scattered groups, a code book, disjoint training sets and averaged weights, on both networks")
def controls(scale: Scale) -> Iterator[Cell]:
    for change in CONTROLS:
        for seed in scale.seeds(2):
            for n in scale.copied_sizes((512,)):
                point = {"data.n": n, "training.seed": seed, **change}
                yield scale.cell(DIT, point, until_copying(n))
            for n in scale.sizes((4096,)):
                point = {"data.n": n, "training.seed": seed, **change}
                yield scale.cell(GPT, point, {"training.steps": 60_000, **evaluated(90, 30), **AT_MEMORY})


@grid("network-sizes-seeds", 16, "both clocks of the smallest and largest networks, three seeds")
def network_sizes_seeds(scale: Scale) -> Iterator[Cell]:
    for seed in scale.seeds(3):
        yield from networks_of_all_sizes(scale, seed)


@grid("dit-law-seeds", 16, "τ_mem of DiT-mini at the two largest N, three seeds")
def dit_law_seeds(scale: Scale) -> Iterator[Cell]:
    for n in scale.copied_sizes((2048, 4096)):
        for seed in scale.seeds(3):
            yield law_run(scale, n, seed)
