"""The page of many runs: what they show together, and one table; each run has its own page on demand."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2.filters import do_urlencode

from twoclocks.analysis.groups import group_labels, grouped
from twoclocks.clocks.onset import Onset
from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light, style
from twoclocks.report.differences import differing, in_order, plain_settings
from twoclocks.report.environment import confidence_words, render_page
from twoclocks.report.laws import some_sizes
from twoclocks.report.places import page_beside
from twoclocks.report.plot import plot
from twoclocks.report.together import chapters_together
from twoclocks.runs.digest import RunDigest, digest_run
from twoclocks.runs.load import Run

FEW = 12  # runs of which a page has one chapter each; more are summarised
MOST_ROWS = 20_000  # of the table of all runs
MOST_SAID = 12  # groups and sizes in the text alternative of the figure
MOST_LINES = 200  # of the table of groups and sizes that is not folded away
MIDDLE = (0.1, 0.9)  # quantiles of the bars: the middle 80% of the runs
CLOCKS = (("τ_rule", "rule", 0.97), ("τ_mem", "memory", 1.03))  # name, colour, place beside N


@dataclass(frozen=True)
class ClockRange:
    """Median and middle of one clock over the runs of one size, of those in which it was observed."""

    n: int
    seen: int
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class RunRow:
    """One run in the table of all runs."""

    cells: dict[str, str]  # settings, then clocks
    folder: str
    page: Path | None  # of the run, where it was written


@dataclass(frozen=True)
class Overview:
    """The data of the page."""

    runs: list[RunDigest]
    verdicts: dict[str, int]
    ranges: dict[str, list[ClockRange]]  # by name of the clock
    lines: list[dict[str, str]]  # one per group of runs and size
    rows: list[RunRow]
    unproven: list[str]  # runs whose rows may be missing at the end, each with the reason

    @property
    def open_sizes(self) -> list[int]:
        """The sizes at which the window is open in all runs."""
        sizes = grouped(self.runs, lambda run: run.settings.data.n)
        return sorted(
            n for n, runs in sizes.items() if all(one.clocks(changes=False).verdict == "open" for one in runs)
        )

    @property
    def advice(self) -> str:
        """What to do after these runs, in one or two sentences."""
        if self.open_sizes:
            listed = ", ".join(f"{n:,}" for n in self.open_sizes[:MOST_SAID])
            return f"Train on N = {listed} samples: there, the window is open in all runs."
        if self.verdicts.get("open"):
            return "At no N is the window open in all runs. The table by settings says where it is; add seeds there."
        if self.verdicts.get("empty", 0) > len(self.runs) / 2:
            return "Copying comes first in most runs. Train on more samples, or use a smaller model."
        return "No run shows an open window. Train on more samples, train longer, or evaluate more often."

    def median_words(self, name: str) -> str:
        """The medians of a clock over the sizes, from the smallest N to the largest."""
        found = self.ranges[name]
        if not found:
            return "not reached"
        ends = dict.fromkeys((found[0], found[-1]))
        return ", ".join(f"{one.median:,.0f} at N = {one.n:,}" for one in ends)

    @property
    def titles(self) -> list[str]:
        """The models of the runs, at most three."""
        found = list(dict.fromkeys(run.title for run in self.runs))
        return found if len(found) <= 3 else [*found[:3], "…"]

    @property
    def chances(self) -> tuple[float, float]:
        """The smallest and the largest chance level of copies."""
        found = [run.copy_chance for run in self.runs]
        return min(found), max(found)


def overview_data(runs: Sequence[Run]) -> Overview:
    """What the page shows, from runs that are read once each."""
    found = [run if isinstance(run, RunDigest) else digest_run(run) for run in runs]
    labels = group_labels([run.settings for run in found])
    pairs = list(zip(found, labels, strict=True))
    sizes = dict(sorted(grouped(found, lambda run: run.settings.data.n).items()))
    return Overview(
        runs=found,
        verdicts=dict(Counter(run.clocks(changes=False).verdict for run in found)),
        ranges={
            name: [one for n, members in sizes.items() if (one := clock_range(n, onsets(members, name))) is not None]
            for name, *_ in CLOCKS
        },
        lines=[
            group_line(label, n, [run for run, _ in members])
            for (label, n), members in sorted(
                grouped(pairs, lambda pair: (pair[1], pair[0].settings.data.n)).items(),
                key=lambda item: (in_order([item[0][0]]), item[0][1]),
            )
        ],
        rows=run_rows(found),
        unproven=[f"{run.path.name}: {run.unproven_end}" for run in found if run.unproven_end],
    )


def onsets(runs: Iterable[RunDigest], name: str) -> list[Onset]:
    """τ_rule or τ_mem of some runs."""
    clocks = (run.clocks(changes=False) for run in runs)
    return [one.rule if name == "τ_rule" else one.memory for one in clocks]


def clock_range(n: int, found: Sequence[Onset]) -> ClockRange | None:
    """Median and middle of the onsets that were observed; None where none was."""
    seen = [one.estimate for one in found if one.estimate is not None]
    if not seen:
        return None
    low, median, high = np.quantile(seen, [MIDDLE[0], 0.5, MIDDLE[1]])
    return ClockRange(n, len(seen), float(low), float(median), float(high))


def group_line(label: str, n: int, runs: Sequence[RunDigest]) -> dict[str, str]:
    """Verdicts and clocks of the runs of one group and size, as text."""
    verdicts = Counter(run.clocks(changes=False).verdict for run in runs)
    said = ", ".join(f"{verdict} {count:,}" for verdict, count in verdicts.most_common())
    line = {"settings": label, "N": f"{n:,}", "runs": f"{len(runs):,}", "window": said}
    return line | {name: range_words(n, onsets(runs, name)) for name, *_ in CLOCKS}


def range_words(n: int, found: Sequence[Onset]) -> str:
    """Such as ``240 (170 to 310); 3 not reached``."""
    one = clock_range(n, found)
    late = sum(not onset.seen for onset in found)
    words = [] if one is None else [f"{one.median:,.0f} ({one.low:,.0f} to {one.high:,.0f})"]
    return "; ".join(words + ([f"{late:,} not reached"] if late else [])) or "at the first evaluation"


def run_rows(runs: Sequence[RunDigest]) -> list[RunRow]:
    """One row per run, in the order of the settings in which they differ, seeds last."""
    tables = [plain_settings(run) for run in runs]
    shown = differing(tables)
    order = sorted(range(len(runs)), key=lambda k: (in_order([tables[k].get(key) for key in shown]), runs[k].path))
    finished = all(run.status["status"] == "finished" for run in runs)
    rows = []
    for run, table in ((runs[k], tables[k]) for k in order[:MOST_ROWS]):
        clocks = run.clocks(changes=False)
        row = {key: str(table.get(key, "")) for key in shown}
        row |= {"τ_rule": clocks.learned_words, "τ_mem": str(clocks.memory), "innovation window": str(clocks)}
        page = page_beside([run.path], "report")
        cells = row if finished else {**row, "status": str(run.status["status"])}
        rows.append(RunRow(cells, run.path.name, page if page.is_file() else None))
    return rows


def draw_ranges(info: Overview) -> Any:
    """Both clocks against N: medians, and the middle 80% of the runs."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(7.4, 4.0), layout="constrained")
        axis = figure.subplots()
        for name, colour, beside in CLOCKS:
            ranges = info.ranges[name]
            if not ranges:
                continue
            n, low, median, high = columns_of(ranges)
            bars: dict[str, Any] = {
                "color": light(colour),
                "linewidth": 1.6,
                "marker": "o",
                "markersize": 4.5,
                "capsize": 3,
            }
            errors = np.stack([median - low, high - median])
            axis.errorbar(n * beside, median, errors, linestyle="-" if len(ranges) > 1 else "none", label=name, **bars)
        axis.set(xscale="log", yscale="log", xlabel="training samples N", ylabel="training step")
        sizes = some_sizes(sorted({run.settings.data.n for run in info.runs}))
        axis.set_xticks(sizes, labels=[f"{n:,}" for n in sizes])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
        if any(info.ranges.values()):
            figure.legend(loc="outside upper left", ncols=2)
        return figure


def columns_of(ranges: Sequence[ClockRange]) -> tuple[Floats, Floats, Floats, Floats]:
    """N, low, median and high as arrays."""
    found = np.array([(one.n, one.low, one.median, one.high) for one in ranges], dtype=np.float64)
    return found[:, 0], found[:, 1], found[:, 2], found[:, 3]


def render_overview(runs: Sequence[Run], beside: Path) -> tuple[str, Any]:
    """The page, and the figure that stands for it as a picture; ``beside``: the folder of the page."""
    info = overview_data(runs)
    together = chapters_together(info.runs)
    words = "; ".join(f"{line['settings']}, N = {line['N']}: {line['window']}" for line in info.lines[:MOST_SAID])
    page = render_page(
        "overview.html",
        together,
        {"address": lambda path: do_urlencode(os.path.relpath(path, beside))},
        info=info,
        folder=os.path.relpath(runs[0].path.parent, beside),
        figure=plot(
            draw_ranges(info), "clocks", f"Both clocks against training-set size, medians over the runs. {words}"
        ),
        sure=confidence_words(info.runs),
        most_rows=MOST_ROWS,
        most_lines=MOST_LINES,
    )
    return page, draw_ranges(info)
