"""Phases of training over runs of several sizes: nothing yet, parts of the rule, the rule, copies (P2 Fig. 6)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from twoclocks.analysis.groups import group_labels, grouped
from twoclocks.analysis.laws import unfit
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks, excursion_words
from twoclocks.core.errors import UserError
from twoclocks.runs.load import Run

Name = Literal[
    "nothing yet", "partial generalization", "generalization", "copying suspected", "memorization", "not certain"
]


@dataclass(frozen=True)
class Phase:
    """Steps during which a run is in one phase; "not certain" where the intervals of the clocks leave it open."""

    name: Name
    begin: float
    end: float
    learned: tuple[str, ...] = ()  # parts of the rule, while it is not learned as a whole
    perhaps: tuple[str, ...] = ()  # other parts that may have been learned


@dataclass(frozen=True)
class RunPhases:
    """The phases of one run from its first to its last evaluation."""

    path: str
    n: int
    seeds: str  # in words
    group: str  # settings besides size and seeds in which runs differ
    steps: tuple[float, float]  # of the first evaluation on a logarithmic axis, and of the last
    clocks: Clocks  # without parts where a rule has a single kind, which is then the rule itself
    phases: tuple[Phase, ...]

    @property
    def boundaries(self) -> dict[str, Onset]:
        """When each phase begins; generalization has no beginning where samples became valid as copies."""
        found = {"memorization": self.clocks.memory}
        if not self.clocks.learned_by_memory:
            found["generalization"] = self.clocks.rule
        if self.clocks.parts:
            found["partial generalization"] = earliest(list(self.clocks.parts.values()))
        return found

    def parts_learned(self, by_copying: bool = False) -> tuple[str, ...]:
        """Parts learned before memory began; with ``by_copying``, parts learned after."""
        memory = self.clocks.memory
        if by_copying:
            return tuple(k for k, part in self.clocks.parts.items() if part.seen and part.lower >= memory.upper)
        return tuple(
            k for k, part in self.clocks.parts.items() if part.seen and part.upper <= self.clocks.copy_free_until
        )

    @property
    def width(self) -> float | None:
        """log10 of τ_mem/τ_rule where the window is open; a lower bound where an end is not known.

        An excursion of copies above the threshold ends the window before τ_mem.
        """
        rule, memory = self.clocks.rule, self.clocks.memory
        if self.clocks.verdict != "open" or not rule.upper:
            return None
        if self.at_least or rule.estimate is None or memory.estimate is None:
            return math.log10(self.clocks.copy_free_until / rule.upper)
        return math.log10(memory.estimate / rule.estimate)

    @property
    def at_least(self) -> bool:
        """Whether ``width`` is a lower bound."""
        clocks = self.clocks
        return clocks.rule.estimate is None or clocks.memory.estimate is None or clocks.excursion is not None

    def sentence(self, seeds: bool = False) -> str:
        """The result, such as ``N = 4,096: window from step 1,200 to step 9,000 (τ_rule 900–1,200, τ_mem …)``."""
        rule, memory, window = self.clocks.rule, self.clocks.memory, self.clocks.window
        parts = self.parts_learned()
        before = f"; {listed(parts)} learned before that" if parts else ""
        if self.clocks.suspected is not None:
            result = f"{self.clocks} (τ_rule {rule}, τ_mem {memory}){before}"
        elif window is not None:
            until = f"at least to step {memory.lower:,.0f}" if math.isinf(window[1]) else f"to step {window[1]:,.0f}"
            cut = excursion_words(self.clocks.excursion) if self.clocks.excursion is not None else ""
            result = f"window from step {window[0]:,.0f} {until} (τ_rule {rule}, τ_mem {memory}){cut}"
        elif self.clocks.verdict == "empty":
            result = f"copies (step {memory}) before the rule{before}"
            late = self.parts_learned(by_copying=True)
            result += f"; {listed(late)} came as copies only" if late and not rule.seen else ""
            result += "; samples became valid later, as copies only" if rule.seen else f"; the rule {rule}"
        elif not rule.seen and not memory.seen:
            result = f"neither the rule ({rule}) nor copies ({memory}){before}"
        else:
            result = f"whether the rule ({rule}) came before copies ({memory}) is not certain{before}"
        return f"N = {self.n:,}{f' ({self.seeds})' if seeds else ''}: {result}."

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.path,
            "n": self.n,
            "seeds": self.seeds,
            "group": self.group,
            "phases": [asdict(phase) for phase in self.phases],
            "boundaries": {name: onset.as_json() for name, onset in self.boundaries.items()},
            "parts": {kind: onset.as_json() for kind, onset in self.clocks.parts.items()},
            "parts_learned": list(self.parts_learned()),
            "verdict": self.clocks.verdict,
            "suspected": self.clocks.suspected,
            "learned_by_memory": self.clocks.learned_by_memory,
            "log10_width": self.width,
            "width_is_lower_bound": self.at_least,
        }


@dataclass(frozen=True)
class PhaseCell:
    """All runs of one group and size."""

    group: str
    n: int
    verdict: str  # the verdict of all of them, or "mixed"
    runs: int
    open: int  # of them
    suspected: int  # of them: copying is suspected but not confirmed
    width: float | None  # median of log10 τ_mem/τ_rule over those that are open
    at_least: bool  # whether that is a lower bound


@dataclass(frozen=True)
class PhaseDiagram:
    """The phases of runs of several sizes."""

    runs: tuple[RunPhases, ...]  # by group, then size
    left_out: tuple[str, ...]  # each with the reason

    @cached_property
    def by_group(self) -> dict[str, list[RunPhases]]:
        return grouped(self.runs, lambda run: run.group)

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.by_group)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted({run.n for run in self.runs}))

    def of(self, group: str) -> list[RunPhases]:
        return self.by_group[group]

    @property
    def several_sizes(self) -> bool:
        """Whether some group has runs of more than one size."""
        return any(len({run.n for run in runs}) > 1 for runs in self.by_group.values())

    def cells(self) -> list[PhaseCell]:
        return [cell_of(runs) for runs in grouped(self.runs, lambda run: (run.group, run.n)).values()]

    def sentences(self) -> list[str]:
        several = len({(run.group, run.n) for run in self.runs}) < len(self.runs)
        one_group = len(self.groups) == 1
        prefixes = ["" if one_group else f"{run.group}, " for run in self.runs]
        return [prefix + run.sentence(several) for prefix, run in zip(prefixes, self.runs, strict=True)]

    def as_json(self) -> dict[str, Any]:
        return {
            "runs": [run.as_json() for run in self.runs],
            "cells": [asdict(cell) for cell in self.cells()],
            "left_out": list(self.left_out),
        }


def phase_diagram(runs: Sequence[Run]) -> PhaseDiagram:
    """The phases of every run that holds an evaluation; forks beside their origin are left out."""
    origins = {run.path.absolute().name for run in runs}
    reasons = {run.path: unfit(run, "tau_rule", origins) for run in runs}
    left_out = tuple(f"{run.label}: {why}" for run in runs if (why := reasons[run.path]) is not None)
    fit = [run for run in runs if reasons[run.path] is None]
    if not fit:
        raise UserError(f"runs: none can be used ({left_out[0] if left_out else 'there are none'}); give others")
    labels = group_labels([run.settings for run in fit])
    found = [run_phases(run, label) for run, label in zip(fit, labels, strict=True)]
    return PhaseDiagram(tuple(sorted(found, key=lambda one: (natural(one.group), one.n, natural(one.path)))), left_out)


def run_phases(run: Run, group: str, clocks: Clocks | None = None) -> RunPhases:
    """The phases of one run, by its own clocks or by others that were read from it."""
    series = run.series()
    clocks = run.clocks(changes=False) if clocks is None else clocks
    several = clocks.parts if len(clocks.parts) > 1 else {}
    clocks = Clocks(clocks.rule, clocks.memory, clocks.gap, several)
    later = [float(step) for step in series.steps if step > 0]
    first, last = (later[0], later[-1]) if later else (1.0, 1.0)
    data, phases = run.settings.data, phases_between(clocks, first, last)
    seeds = f"training.seed {run.settings.training.seed}, data.seed {data.seed}"
    return RunPhases(str(run.path), data.n, seeds, group, (first, last), clocks, phases)


def phases_between(clocks: Clocks, first: float, last: float) -> tuple[Phase, ...]:
    """The phase between all neighbouring ends of intervals; equal neighbours are joined."""
    onsets = [clocks.rule, clocks.memory, *clocks.parts.values()]
    changes = [end for onset in onsets for end in (onset.lower, onset.upper)]
    changes += [clocks.copy_free_until, math.inf if clocks.suspected is None else clocks.suspected]
    ends = {end for end in changes if first < end < last}
    found: list[Phase] = []
    for begin, end in pairwise(sorted({first, last} | ends)):
        here = state(clocks, begin, end)
        if found and replace(found[-1], end=end) == replace(here, begin=found[-1].begin):
            here = replace(here, begin=found.pop().begin)
        found.append(here)
    return tuple(found)


def state(clocks: Clocks, begin: float, end: float) -> Phase:
    """The phase from ``begin`` to ``end``, between which no interval of an onset begins or ends."""
    if clocks.memory.upper <= begin:
        return Phase("memorization", begin, end)
    if clocks.suspected is not None and clocks.suspected <= begin:
        return Phase("copying suspected", begin, end)
    if clocks.copy_free_until < end:
        return Phase("not certain", begin, end)
    if clocks.rule.upper <= begin:
        return Phase("generalization", begin, end)
    if clocks.rule.lower < end:
        return Phase("not certain", begin, end)
    learned = tuple(kind for kind, part in clocks.parts.items() if part.upper <= begin)
    perhaps = tuple(kind for kind, part in clocks.parts.items() if part.lower < end and kind not in learned)
    if learned:
        return Phase("partial generalization", begin, end, learned, perhaps)
    return Phase("not certain" if perhaps else "nothing yet", begin, end)


def earliest(onsets: Sequence[Onset]) -> Onset:
    """The first of several onsets; its interval goes from the smallest lower to the smallest upper end."""
    lower, upper = min(one.lower for one in onsets), min(one.upper for one in onsets)
    if math.isinf(upper):
        return Onset(lower, upper, "right-censored", definition="first part learned")
    return Onset(lower, upper, "observed" if lower > 0 else "left-censored", definition="first part learned")


def cell_of(runs: Sequence[RunPhases]) -> PhaseCell:
    """Summarise runs of one group and size."""
    verdicts = {run.clocks.verdict for run in runs}
    open_ones = [run for run in runs if run.width is not None]
    return PhaseCell(
        group=runs[0].group,
        n=runs[0].n,
        verdict=verdicts.pop() if len(verdicts) == 1 else "mixed",
        runs=len(runs),
        open=sum(run.clocks.verdict == "open" for run in runs),
        suspected=sum(run.clocks.verdict == "suspected" for run in runs),
        width=float(np.median([run.width for run in open_ones if run.width is not None])) if open_ones else None,
        at_least=any(run.at_least for run in open_ones),
    )


def listed(kinds: Sequence[str]) -> str:
    """Kinds of parts in words: ``rows and columns``; ``layer 1, layer 2 and layer 3``."""
    words = [kind.replace("_", " ") if "_" in kind else f"{kind}s" for kind in kinds]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def natural(text: str) -> list[tuple[int, float, str]]:
    """A key by which ``group 10`` comes after ``group 2``."""
    pieces = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(0, float(piece), "") if k % 2 else (1, 0.0, piece) for k, piece in enumerate(pieces)]
