"""Rule accuracy and memorization at the end of training over the group size (P1 Figs. 1 and 7)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, TypeVar

from twoclocks.analysis.groups import grouped
from twoclocks.core.errors import UserError
from twoclocks.core.theme import light
from twoclocks.evaluation import PartAccuracy, PartMemorization, SampleAccuracy, SampleMemorization
from twoclocks.papers.drawing import explain, name_panel
from twoclocks.papers.records import Record, Records
from twoclocks.papers.two_clocks.curves import MODELS, seeds_words
from twoclocks.papers.two_clocks.panels import proportion_axis
from twoclocks.report.drawings.parts import SMALL

LEGEND = {**SMALL, "handlelength": 2.8}  # long enough to tell dashes apart
Level = Literal["sample", "group"]
K = TypeVar("K", bound=Hashable)
COLUMNS: dict[Level, tuple[str, str]] = {
    "sample": (SampleAccuracy.name, SampleMemorization.name),
    "group": (PartAccuracy.column("group"), PartMemorization.column("group")),
}


@dataclass(frozen=True)
class Endpoint:
    """A run at its last evaluation, for whole samples or for groups; NaN where something is not known."""

    preset: str
    group: int
    n: int
    seed: int
    step: int
    stop: str  # clocks.stop: what ended the run
    accuracy: float
    memorization: float
    chance: float  # accuracy of uniform bits
    memorization_rule: float  # memorization of samples of the rule itself
    memorization_cube: float  # and of uniform bits

    @property
    def model(self) -> str:
        return MODELS.get(self.preset, self.preset)


@dataclass(frozen=True)
class Column:
    """The runs of one column of panels, which has one network and one N, for whole samples and for groups."""

    samples: tuple[Endpoint, ...]  # one at least
    groups: tuple[Endpoint, ...]  # empty where no run counted groups

    @property
    def first(self) -> Endpoint:
        return self.samples[0]

    def of(self, level: Level) -> tuple[Endpoint, ...]:
        return self.samples if level == "sample" else self.groups


def columns_by(records: Records, key: Callable[[Endpoint], K]) -> dict[K, Column]:
    """One column per network, or per N, from the last evaluations of runs that were not made for τ_rule alone."""
    whole = records.those(lambda one: one.run.settings.clocks.stop != "rule")
    samples, groups = (
        grouped([end for one in whole if (end := endpoint(one, level)) is not None], key) for level in COLUMNS
    )
    return {value: Column(tuple(ends), tuple(groups.get(value, ()))) for value, ends in samples.items()}


def endpoint(record: Record, level: Level) -> Endpoint | None:
    """The last evaluation of a run; None where it did not count groups, as runs of earlier versions."""
    columns, (accuracy, memorization) = record.run.metrics(), COLUMNS[level]
    if accuracy not in columns or memorization not in columns:
        return None
    rule, n = record.run.settings.rule, record.n
    whole = level == "sample"
    chances = (rule.copy_chance(n), rule.cube_copy_chance(n)) if whole else stored_chances(record, memorization)
    return Endpoint(
        preset=record.preset,
        group=record.value("rule.group"),
        n=n,
        seed=record.seed,
        step=record.last_step,
        stop=record.run.settings.clocks.stop,
        accuracy=float(columns[accuracy][-1]),
        memorization=float(columns[memorization][-1]),
        chance=rule.chance() if whole else rule.part_chance()["group"],
        memorization_rule=chances[0],
        memorization_cube=chances[1],
    )


def stored_chances(record: Record, column: str) -> tuple[float, float]:
    """Chance levels of a column that depend on the training set, as the run stored them."""
    try:
        found = record.run.metric(column)
    except UserError:
        return math.nan, math.nan
    return (
        math.nan if found.chance_rule is None else found.chance_rule,
        math.nan if found.chance_cube is None else found.chance_cube,
    )


def draw_columns(axes: Any, columns: Sequence[Column], letters: Mapping[Level, str], networks: bool = False) -> None:
    """All columns side by side, one row per level; ``networks``: titles name them."""
    places = sorted({one.group for column in columns for one in column.samples})
    for row, (level, letter) in zip(axes, letters.items(), strict=True):
        for number, (axis, column) in enumerate(zip(row, columns, strict=True)):
            draw_endpoints(axis, column.of(level), level, places, labelled=not number)
            network = f"{column.first.model}, " if networks else ""
            name_panel(axis, "" if number else letter, f"{network}{level}s, N = {column.first.n:,}")


def draw_endpoints(axis: Any, ends: Sequence[Endpoint], level: Level, places: Sequence[int], labelled: bool) -> None:
    """Bars of memorization on the accuracy, at one place per group size; seeds lie over each other."""
    if not ends:
        explain(axis, "groups were not counted in these runs" if level == "group" else "no run")
        return
    place = {group: k for k, group in enumerate(places)}
    groups = sorted({one.group for one in ends})
    by_place = {place[group]: [one for one in ends if one.group == group] for group in groups}
    wide = {"width": 0.62, "linewidth": 0}
    for count, (k, same) in enumerate(by_place.items()):
        copied, valid = fmean(one.memorization for one in same), fmean(one.accuracy for one in same)
        axis.bar(k, valid, color=light("rule"), alpha=0.28, **wide, label=None if count else "rule accuracy")
        axis.bar(k, copied, color=light("memory"), alpha=0.75, **wide, label=None if count else "memorization")
    for one in ends:
        for value, colour in ((one.accuracy, "rule"), (one.memorization, "memory")):
            axis.plot([place[one.group]], [value], "o", color=light(colour), markersize=3)
    lines = (
        ([same[0].chance for same in by_place.values()], "ink", "--", "accuracy by chance"),
        (
            [same[0].memorization_rule for same in by_place.values()],
            "broken",
            "-",
            "memorization of the rule's samples",
        ),
        ([same[0].memorization_cube for same in by_place.values()], "new", ":", "memorization of uniform bits"),
    )
    thin = {"linewidth": 1.2, "marker": "_", "markersize": 7}
    for values, colour, dash, label in lines:
        axis.plot([*by_place], values, color=light(colour), linestyle=dash, label=label, **thin)
    axis.set_xticks(range(len(places)), labels=[str(group) for group in places])
    axis.set_xlim(-0.6, max(len(places) - 0.4, 1.6))
    axis.set_axisbelow(True)
    axis.set_xlabel("group size G")
    proportion_axis(axis, f"proportion of {level}s" if labelled else "")


def endpoint_words(ends: Sequence[Endpoint]) -> str:
    """Valid / copied by group size, mean over seeds, such as ``2: 99% / 3%``."""
    groups = sorted({one.group for one in ends})
    words = []
    for group in groups:
        same = [one for one in ends if one.group == group]
        words.append(f"{group}: {fmean(o.accuracy for o in same):.0%} / {fmean(o.memorization for o in same):.0%}")
    return ", ".join(words)


def ended_words(ends: Sequence[Endpoint]) -> str:
    """From which steps and how many seeds the numbers are."""
    low, high = min(one.step for one in ends), max(one.step for one in ends)
    steps = f"step {low:,}" if low == high else f"steps {low:,} to {high:,}"
    soon = ", soon after τ_mem" if all(one.stop == "memory" for one in ends) else ""
    return f"{steps}{soon}, {seeds_words(ends)}"
