"""P1's collapse in each set of runs that differ in their size N alone: onsets and curves on steps·batch/N."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twoclocks.analysis.groups import group_labels, grouped
from twoclocks.analysis.laws import Point, read_points, size_collapse_of
from twoclocks.clocks.size_collapse import SizeCollapse
from twoclocks.core.errors import UserError
from twoclocks.runs.load import Run

FEWEST = 3  # sizes that a set needs: any two onsets lie on some law


@dataclass(frozen=True)
class RunsCollapse:
    """Runs that differ in size, seeds and length only, and how well they collapse."""

    label: str  # what they have in common and other sets do not
    points: tuple[Point, ...]
    collapse: SizeCollapse


def found_size_collapses(runs: Sequence[Run]) -> Iterator[RunsCollapse]:
    """The collapse of τ_mem in every set of runs that differ in N alone, one by one, where there are enough sizes."""
    labels = group_labels([run.settings for run in runs])
    for label, pairs in grouped(zip(runs, labels, strict=True), lambda pair: pair[1]).items():
        members = [run for run, _ in pairs]
        if len({run.settings.data.n for run in members}) < FEWEST:
            continue
        try:
            points, _ = read_points(members, "tau_mem")
            yield RunsCollapse(label, tuple(points), size_collapse_of(points, "tau_mem"))
        except UserError:
            continue  # no run was evaluated, or they define τ_mem differently: the chapter on laws says so
