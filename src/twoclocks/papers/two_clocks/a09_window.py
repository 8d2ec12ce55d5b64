"""Claim A9: the window closes for large G or small N, and reopens with N (P1 §3, Fig. 2C, 2D, 4B)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from twoclocks.clocks.onset import Onset
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, not_run
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.parity import Point, Reading, listed, points, seeds_of, with_enough_seeds
from twoclocks.papers.two_clocks.runs import DIT, GPT

State = Literal["open", "empty"]
STATES: tuple[State, ...] = get_args(State)
Diagram = Mapping[tuple[int, int], State]  # by group size and N
RANGE = 8
REOPENING, CLOSED = {4, 6}, 9  # G whose window depends on N; the smallest G that is not learned at any N (claim A3)


class WindowOverGroupAndSize(Claim):
    """The verdict on the window, by the printed clocks, over group size and N."""

    id: ClassVar[str] = "A9"
    title: ClassVar[str] = "the window closes for large G or small N, and reopens with N"
    criterion: ClassVar[str] = (
        "at some N it is open for a small G and empty for a larger one; at some G it is empty for a small N and open "
        "for a larger one; nowhere is it the other way round. Refuted where it is, or where it does not close or not "
        "reopen though G = 4, 6 and some G ≥ 9 were run at every N of an 8-fold range. Pairs of G and N whose seeds "
        "disagree are left out"
    )
    revised: ClassVar[str] = (
        "a window that never closes or never reopens refutes only with group sizes that should; before, small G "
        "alone refuted"
    )
    preset: ClassVar[str]

    def judge(self, records: Records) -> Judgement:
        return with_enough_seeds(points(records.baseline(self.preset)), self.judged, window_onset)

    def judged(self, every: Mapping[tuple[int, int], Point]) -> Judgement:
        found = {key: state for key, one in every.items() if (state := state_of(one))}
        if not found:
            return not_run(f"{self.preset} over G and N, each beyond τ_mem")
        words = rows_in_words(found)
        against = contrary(found)
        words += [f"the other way round: {'; '.join(against)}"] if against else []
        left_out = [str(one) for key, one in every.items() if key not in found]
        words += [f"left out (seeds disagree, or the run ended early): {'; '.join(left_out)}"] if left_out else []
        seeds = seeds_of((every[key] for key in found), window_onset)
        values = {"diagram": {f"{group},{n}": state for (group, n), state in found.items()}, "contrary": against}
        return Judgement.of(phase_answer(found), "; ".join(words), seeds, values)


@CLAIMS.register("A9-dit")
class DiTWindow(WindowOverGroupAndSize):
    """DiT-mini."""

    paper: ClassVar[str] = "DiT-mini: larger G closes the window; a rule not learned at small N is learned at larger N"
    figures: ClassVar[tuple[str, ...]] = ("fig2", "fig8", "fig9")
    grids: ClassVar[tuple[str, ...]] = ("dit-groups", "dit-law")
    preset: ClassVar[str] = DIT


@CLAIMS.register("A9-gpt")
class GPTWindow(WindowOverGroupAndSize):
    """GPT-mini."""

    paper: ClassVar[str] = "GPT-mini: the same structure (Fig. 4B, 20)"
    figures: ClassVar[tuple[str, ...]] = ("fig4", "fig20")
    grids: ClassVar[tuple[str, ...]] = ("gpt-groups",)
    preset: ClassVar[str] = GPT


def window_onset(one: Reading) -> Onset:
    """The clock that decides on the window: the first of the two."""
    return min(one.rule, one.memory, key=lambda onset: onset.upper)


def state_of(point: Point) -> State | None:
    """Whether the window is open or empty; None where the seeds disagree or the clocks do not say."""
    if point.verdicts == {"open"}:
        return "open"
    return "empty" if point.verdicts == {"empty"} else None


def closes_with_group(found: Diagram) -> bool:
    """Whether it is empty at a G above one at which it is open, at the same N."""
    return any(open_at(found, key) and empty_at(found, (g, key[1])) for key in found for g, _ in found if g > key[0])


def reopens_with_size(found: Diagram) -> bool:
    """Whether it is open at an N above one at which it is empty, at the same G."""
    return any(empty_at(found, key) and open_at(found, (key[0], n)) for key in found for _, n in found if n > key[1])


def contrary(found: Diagram) -> list[str]:
    """Where the window opens with larger G, or closes with larger N."""
    ordered = sorted(found)
    wrong = [
        f"G = {g}, N = {n:,} is open, G = {small}, N = {n:,} is empty"
        for g, n in ordered
        for small, other in ordered
        if other == n and small < g and open_at(found, (g, n)) and empty_at(found, (small, n))
    ]
    return wrong + [
        f"G = {g}, N = {n:,} is empty, G = {g}, N = {small:,} is open"
        for g, n in ordered
        for other, small in ordered
        if other == g and small < n and empty_at(found, (g, n)) and open_at(found, (g, small))
    ]


def phase_answer(found: Diagram) -> Answer:
    """The criterion on a diagram.

    That the window never closes or never reopens can be said only where the paper has it do so: with the group sizes
    that are learned at large N alone, and one that never is, over an 8-fold range of N.
    """
    if contrary(found):
        return "no"
    if closes_with_group(found) and reopens_with_size(found):
        return "yes"
    groups, sizes = ({key[axis] for key in found} for axis in (0, 1))
    complete = len(found) == len(groups) * len(sizes) and max(sizes) >= RANGE * min(sizes)
    return "no" if complete and groups >= REOPENING and max(groups) >= CLOSED else "undecided"


def rows_in_words(found: Diagram) -> list[str]:
    """At which N the window is open and empty; groups with the same answer together."""
    rows: dict[str, list[int]] = {}
    for group in sorted({group for group, _ in found}):
        sizes = {state: [n for (g, n), one in found.items() if g == group and one == state] for state in STATES}
        row = ", ".join(f"{state} at N {listed(at)}" for state, at in sizes.items() if at)
        rows.setdefault(row, []).append(group)
    return [f"G = {listed(groups)}: {row}" for row, groups in rows.items()]


def open_at(found: Diagram, key: tuple[int, int]) -> bool:
    return found.get(key) == "open"


def empty_at(found: Diagram, key: tuple[int, int]) -> bool:
    return found.get(key) == "empty"
