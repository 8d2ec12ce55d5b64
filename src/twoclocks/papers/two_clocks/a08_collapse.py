"""Claim A8: memorization curves over N collapse on steps·batch/N (P1 §3, Fig. 2H, 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from twoclocks.clocks.collapse import collapse
from twoclocks.core.errors import UserError
from twoclocks.papers.claim import CLAIMS, Claim, Judgement, all_of, not_run
from twoclocks.papers.intervals import is_within, largest_of, spread_of
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.parity import (
    Point,
    eightfold,
    listed,
    memory_onset,
    points_to_memory,
    read,
    seeds_of,
    with_enough_seeds,
)
from twoclocks.papers.two_clocks.runs import DIT, GPT

FACTOR, SIZES = 1.5, 3
GROUP = 3


class CollapseOverN(Claim):
    """P1's own test: the batch is fixed and N changes. A sweep over the batch is reported beside it."""

    id: ClassVar[str] = "A8"
    title: ClassVar[str] = "memorization curves collapse on steps·batch/N"
    criterion: ClassVar[str] = (
        "G = 3, the preset's batch, over every 8-fold range with at least three N: the medians of τ_mem·batch/N lie "
        "within a factor of 1.5; the sweep over batches is reported, not judged"
    )
    revised: ClassVar[str] = (
        "it asks for every 8-fold range of N; before, for all N at once, over which the paper's own law does not "
        "collapse either"
    )
    preset: ClassVar[str]
    fewest: ClassVar[int] = 2

    def judge(self, records: Records) -> Judgement:
        chosen = records.baseline(self.preset).where(rule__group=GROUP).those(lambda one: one.n >= self.fewest)
        batches = batch_sweep(records, self.preset)
        return with_enough_seeds(points_to_memory(chosen), lambda some: self.judged(some, batches), memory_onset)

    def judged(self, some: Mapping[tuple[int, int], Point], batches: dict[str, Any]) -> Judgement:
        found = sorted(some.values(), key=lambda one: one.n)
        ranges = [part for part in eightfold(found) if len(part) >= SIZES]
        if not ranges:
            there = listed(one.n for one in found)
            return not_run(f"{self.preset} at G = 3, each beyond τ_mem, over an 8-fold range of N (there: {there})")
        batch = int(found[0].readings[0].record.value("training.batch"))
        rescaled = {one.n: one.memory.scaled(batch / one.n) for one in found}
        spreads = [spread_of([rescaled[one.n] for one in part]) for part in ranges]
        spread = largest_of(spreads)
        measured = (
            f"τ_mem·{batch}/N: {', '.join(f'{value} at N = {n:,}' for n, value in rescaled.items())}; {spread.times()} "
            "within 8-fold ranges"
        )
        values: dict[str, Any] = {"batch": batch, "spread": spread.as_json()}
        values["rescaled"] = {str(n): value.as_json() for n, value in rescaled.items()}
        values["batches"] = batches
        for rate, found_power in values["batches"].items():
            low, high = (float("nan") if end is None else end for end in found_power["batch_power_ci"])
            measured += f"; batches at rate {rate}: τ_mem ∝ batch^{found_power['batch_power']:.2f} "
            measured += f"(95%: {low:.2f} to {high:.2f}, {found_power['points']} runs)"
        seeds = seeds_of((one for part in ranges for one in part), memory_onset)
        answer = all_of([is_within(one, 0, FACTOR) for one in spreads])
        return Judgement.of(answer, measured, seeds, values)


@CLAIMS.register("A8-dit")
class DiTCollapse(CollapseOverN):
    """DiT-mini."""

    paper: ClassVar[str] = "DiT-mini: trajectories across N collapse onto a common curve"
    figures: ClassVar[tuple[str, ...]] = ("fig2", "fig8")
    grids: ClassVar[tuple[str, ...]] = ("calibration-memory", "dit-law", "dit-law-seeds")
    preset: ClassVar[str] = DIT


@CLAIMS.register("A8-gpt")
class GPTCollapse(CollapseOverN):
    """GPT-mini; at smaller N its τ_mem runs into τ_rule."""

    paper: ClassVar[str] = "GPT-mini: the same (Fig. 20; compared at N ≥ 512)"
    figures: ClassVar[tuple[str, ...]] = ("fig20",)
    grids: ClassVar[tuple[str, ...]] = ("gpt-law", "gpt-rates")
    preset: ClassVar[str] = GPT
    fewest: ClassVar[int] = 512


def batch_sweep(records: Records, preset: str) -> dict[str, Any]:
    """The power of the batch in τ_mem by learning rate, from runs with N ≥ batch that learned the rule first."""
    varied = ("training.batch", "training.learning_rate")
    same = records.baseline(preset, varied, rule__group=GROUP).those(lambda one: one.n >= one.value("training.batch"))
    found: dict[str, Any] = {}
    for rate, runs in same.by("training.learning_rate").items():
        both = [one for one in read(runs) if one.rule.seen and one.memory.seen]
        sizes = [one.record.n for one in both]
        try:
            fit = collapse(sizes, [one.record.value("training.batch") for one in both], [one.memory for one in both])
        except UserError:
            continue  # one batch only, or too few runs
        found[f"{rate:g}"] = fit.as_json()
    return found
