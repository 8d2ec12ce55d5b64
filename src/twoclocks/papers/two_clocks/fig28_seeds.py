"""P1 Fig. 28: runs that differ in their seed only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.analysis.groups import grouped
from twoclocks.core.arrays import Floats
from twoclocks.papers.drawing import name_panel, new_figure
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.curves import (
    MODELS,
    PAPER_N,
    ClockName,
    RunCurves,
    seeds_words,
    some_curves,
)
from twoclocks.papers.two_clocks.panels import proportion_axis, steps_axis
from twoclocks.papers.two_clocks.runs import DIT, GPT
from twoclocks.report.drawings.parts import SMALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRONTIER = (4, 6, 3)  # group sizes in order of interest: P1 learns 3 always, 4 mostly, 6 rarely
MOST_COLUMNS = 4
KEEP = 0.6  # of the moving average that is kept at every evaluation
Place = tuple[int, int]  # G and N


@dataclass(frozen=True)
class SeedCurves:
    """The curves of one run, raw and smoothed."""

    run: RunCurves
    accuracy: Floats
    memorization: Floats


@dataclass(frozen=True)
class SeedsInfo:
    """The data of the figure: one row per network, one panel per G and N."""

    places: Mapping[str, tuple[Place, ...]]  # by network
    curves: tuple[SeedCurves, ...]

    @property
    def panels(self) -> list[tuple[str, Place]]:
        return [(preset, place) for preset, places in self.places.items() for place in places]

    def of(self, preset: str, place: Place) -> list[SeedCurves]:
        return [one for one in self.curves if one.run.preset == preset and (one.run.group, one.run.n) == place]


@FIGURES.register("fig28")
class Seeds(PaperFigure[SeedsInfo]):
    """Seeds of both networks."""

    id: ClassVar[str] = "fig28"
    title: ClassVar[str] = "Agreement of runs near the frontier of learnability"
    shows: ClassVar[str] = (
        "Repeated runs of GPT-mini and DiT-mini for several N and G, one shade per seed; thin: raw, thick: an "
        "exponential moving average. Blue: rule accuracy; orange, dashed: memorization. Its caption is cut there."
    )
    claims: ClassVar[tuple[str, ...]] = ("A9", "A20")
    grids: ClassVar[tuple[str, ...]] = ("frontier", "gpt-law", "dit-rule", "dit-law", "dit-law-seeds")

    def data(self, records: Records) -> SeedsInfo:
        runs = some_curves(records, GPT, DIT)
        by_network = grouped(runs, lambda one: one.preset)
        places = {preset: shown_places(runs, preset) for preset in (GPT, DIT) if preset in by_network}
        curves = [
            SeedCurves(one, smoothed(one.accuracy), smoothed(one.memorization))
            for one in runs
            if (one.group, one.n) in places[one.preset]
        ]
        return SeedsInfo(places, tuple(curves))

    def draw(self, info: SeedsInfo) -> Figure:
        columns = max(map(len, info.places.values()))
        with new_figure(max(3.0 * columns, 6.0), 0.8 + 2.5 * len(info.places)) as figure:
            axes = figure.subplots(len(info.places), columns, squeeze=False)
            for row, (preset, places) in zip(axes, info.places.items(), strict=True):
                for column, (axis, place) in enumerate(zip(row, places, strict=False)):
                    curves = info.of(preset, place)
                    draw_seeds(axis, curves)
                    proportion_axis(axis, "" if column else "proportion of samples")
                    seeds = seeds_words([one.run for one in curves])
                    name_panel(axis, "", f"{place_words(preset, place)}: {seeds}")
                for axis in row[len(places) :]:
                    axis.remove()
            figure.legend(handles=keys(), loc="outside lower center", ncols=3, **SMALL)
            return figure

    def caption(self, info: SeedsInfo) -> str:
        words = []
        for preset, place in info.panels:
            runs = [one.run for one in info.of(preset, place)]
            words.append(f"{place_words(preset, place)} ({seeds_words(runs)}): {spread(runs)}")
        alone = [
            MODELS[preset]
            for preset, places in info.places.items()
            if all(len(info.of(preset, place)) == 1 for place in places)
        ]
        single = f" {' and '.join(alone)}: one seed each so far, so nothing can be said about agreement."
        return (
            "Runs that differ in their seed only, where most seeds were run: rule accuracy (blue) and memorization "
            "(orange, dashed), raw (thin) and as a moving average (thick). τ_rule / τ_mem of each run: "
            f"{'; '.join(words)}.{single if alone else ''} Paper: runs agree away from the frontier (its numbers are "
            "not printed)."
        )


def place_words(preset: str, place: Place) -> str:
    """Such as ``GPT-mini, G = 3, N = 512``."""
    return f"{MODELS[preset]}, G = {place[0]}, N = {place[1]:,}"


def shown_places(runs: Sequence[RunCurves], preset: str) -> tuple[Place, ...]:
    """The panels of a network: the most seeds first, if possible where the other network has many too.

    A single run shows no agreement: it is left out, unless the network has nothing else.
    """
    count = Counter((one.preset, one.group, one.n) for one in runs)
    own = {(group, n): seeds for (name, group, n), seeds in count.items() if name == preset}

    def worth(place: Place) -> tuple[int, int, int, bool, int]:
        fewest = min(count[name, *place] for name in (GPT, DIT))
        interest = -FRONTIER.index(place[0]) if place[0] in FRONTIER else -len(FRONTIER)
        return own[place], fewest, interest, place[1] == PAPER_N, place[1]

    ranked = sorted(own, key=worth, reverse=True)
    repeated = [place for place in ranked if own[place] > 1]
    return tuple(sorted((repeated or ranked)[:MOST_COLUMNS]))


def smoothed(values: Floats) -> Floats:
    """Exponential moving average, which begins at the first value.

    >>> smoothed(np.array([0.0, 1.0, 1.0])).round(2).tolist()
    [0.0, 0.4, 0.64]
    """
    found = np.empty(len(values))
    for k, value in enumerate(values):
        found[k] = value if not k else KEEP * found[k - 1] + (1 - KEEP) * value
    return found


def draw_seeds(axis: Any, curves: Sequence[SeedCurves]) -> None:
    """All seeds of a panel; those of one hue are told apart by their shade."""
    for one, (rule, memory) in zip(curves, shades(len(curves)), strict=True):
        for raw, smooth, shade, dash in (
            (one.run.accuracy, one.accuracy, rule, "-"),
            (one.run.memorization, one.memorization, memory, "--"),
        ):
            axis.plot(one.run.steps, raw, color=shade, linewidth=0.6, alpha=0.4, linestyle=dash)
            axis.plot(one.run.steps, smooth, color=shade, linewidth=1.7, linestyle=dash)
    steps_axis(axis, [one.run for one in curves])


def shades(count: int) -> list[tuple[Any, Any]]:
    """A blue and an orange per seed."""
    import matplotlib

    places = np.linspace(0.85, 0.45, count) if count > 1 else np.array([0.75])
    return list(zip(matplotlib.colormaps["Blues"](places), matplotlib.colormaps["Oranges"](places), strict=True))


def keys() -> list[Any]:
    from matplotlib.lines import Line2D

    (rule, memory) = shades(1)[0]
    thin = {"linewidth": 0.6, "alpha": 0.6, "color": rule}
    return [
        Line2D([], [], color=rule, linewidth=1.7, label="rule accuracy"),
        Line2D([], [], color=memory, linewidth=1.7, linestyle="--", label="memorization"),
        Line2D([], [], label="thin: every evaluation; thick: moving average; shades: seeds", **thin),
    ]


def spread(runs: Sequence[RunCurves]) -> str:
    """The clocks of each seed, such as ``340, 350 / 5,600, not by 9,000``."""
    clocks: tuple[ClockName, ...] = ("rule", "memory")
    return " / ".join(", ".join(onset_of(one, clock) for one in runs) for clock in clocks)


def onset_of(one: RunCurves, clock: ClockName) -> str:
    at = one.onset(clock).estimate
    if clock == "rule" and one.clocks.learned_by_memory:
        return "by copying"
    return str(one.onset(clock)) if at is None or not math.isfinite(at) else f"{at:,.0f}"
