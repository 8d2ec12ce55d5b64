"""Figure of the law of a clock: onsets against training-set size as intervals, the fit with its band."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoclocks.analysis.groups import grouped
from twoclocks.analysis.laws import FIELDS, NAMES, Laws, Point, fit_runs
from twoclocks.core.arrays import Floats
from twoclocks.core.errors import UserError
from twoclocks.core.text import short
from twoclocks.core.theme import light, style
from twoclocks.report.legends import legend_below
from twoclocks.runs.load import Run

COLOURS = {"tau_mem": "memory", "tau_rule": "rule", "tau_gap": "broken", "tau_ext": "new"}
MARKERS = "osD^vP*X"
MOST_GROUPS = 12  # groups of runs that get laws and marks of their own
MOST_POINTS = 240  # runs that a panel draws; the law is fitted to all of them


@dataclass(frozen=True)
class LawInfo:
    """The data of the figure and of its table."""

    laws: Laws
    sizes: Floats
    middle: Floats
    low: Floats  # where 95% of new runs lie
    high: Floats

    @property
    def name(self) -> str:
        return NAMES[self.laws.clock]

    @property
    def sentence(self) -> str:
        law = self.laws.pooled
        low, high = law.alpha_ci
        number = f"{law.points:,} runs{f', {law.censored:,} of them censored' if law.censored else ''}"
        if law.weakness:
            return f"{self.name}: no power law: {law.weakness} ({number})."
        seen = "" if law.r_squared is None else f", R² {law.r_squared:.2f}"
        return (
            f"{self.name} = {law.a:.3g}·N^{law.alpha:z.2f} "
            f"(95% interval of the exponent {low:.2f} to {high:.2f}{seen}; {number})."
        )


def law_data(runs: Sequence[Run]) -> tuple[list[LawInfo], list[str]]:
    """One law per clock, or the reason why it has none; nothing where there are fewer than three sizes."""
    if len({run.settings.data.n for run in runs}) < 3:
        return [], []
    found, refused = [], []
    asked = all(run.settings.evaluation.prompts for run in runs)  # other runs have no τ_ext, which needs no sentence
    for clock in (clock for clock in FIELDS if clock != "tau_ext" or asked):
        try:
            found.append(law_info(fit_runs(runs, clock, most_groups=MOST_GROUPS)))
        except UserError as error:
            refused.append(f"{NAMES[clock]}: {error}")
    return found, refused


def law_info(laws: Laws) -> LawInfo:
    """The fitted line and its band over the sizes."""
    sizes = np.geomspace(min(laws.pooled.sizes) / 1.5, max(laws.pooled.sizes) * 1.5, 60)
    ends = np.array([laws.pooled.predict_interval(n) for n in sizes])
    middle = np.array([laws.pooled.predict(n) for n in sizes])
    return LawInfo(laws, sizes, middle, ends[:, 0], ends[:, 1])


def draw_laws(infos: Sequence[LawInfo], width: float = 7.4) -> Any:
    """One panel per clock, one below the other."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(width, 4.9 * len(infos)), layout="constrained")
        axes = figure.subplots(len(infos), 1, squeeze=False)[:, 0]
        for axis, info in zip(axes, infos, strict=True):
            draw_law(axis, info)
        return figure


def draw_law(axis: Any, info: LawInfo) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    colour: str = light(COLOURS[info.laws.clock])
    if not info.laws.pooled.weakness:  # else a line would say that there is a law
        band_style = {"color": colour, "alpha": 0.13, "linewidth": 0, "label": "95% of new runs"}
        axis.fill_between(info.sizes, info.low, info.high, **band_style)
        label = f"{info.laws.pooled.a:.3g}·N^{info.laws.pooled.alpha:z.2f}"
        axis.plot(info.sizes, info.middle, color=colour, linewidth=1.4, label=label)
    else:
        axis.set_title(
            "\n".join(textwrap.wrap(f"no power law: {info.laws.pooled.weakness}", 90)), fontsize=9, loc="left"
        )
    drawn = drawn_points(info.laws.points)
    groups = grouped(zip(spread([point.n for point in drawn]), drawn, strict=True), lambda placed: placed[1].group)
    if len(groups) > MOST_GROUPS:
        groups = {"runs": [placed for members in groups.values() for placed in members]}
    for number, (group, members) in enumerate(groups.items()):
        marker_style = {
            "color": colour,
            "marker": MARKERS[number % len(MARKERS)],
            "linestyle": "none",
            "markersize": 4.5,
        }
        name = short(group, 80) if len(groups) > 1 else "runs"
        seen = [(n, point.onset.estimate) for n, point in members if point.onset.estimate is not None]
        if seen:
            axis.plot(*zip(*seen, strict=True), label=name, **marker_style)
        for n, point in members:
            draw_interval(axis, n, point.onset.lower, point.onset.upper, colour)
    axis.set(xscale="log", yscale="log", xlabel="training samples N", ylabel=f"{info.name} (steps)")
    sizes = some_sizes(info.laws.pooled.sizes)
    axis.set_xticks(sizes, labels=[f"{n:,}" for n in sizes])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,g}"))
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_minor_formatter(NullFormatter())
    if axis.get_legend_handles_labels()[0]:
        legend_below(axis, ncols=3 if len(groups) == 1 else 1)


def some_sizes(sizes: Sequence[int], most: int = 12) -> list[int]:
    """The sizes, or as many of them as have room as labels."""
    kept = np.linspace(0, len(sizes) - 1, min(len(sizes), most)).round().astype(int)
    return [sizes[k] for k in kept]


def drawn_points(points: Sequence[Point]) -> Sequence[Point]:
    """All points; of many, some that are evenly chosen in the order of N and onset, which keeps sizes and spread."""
    if len(points) <= MOST_POINTS:
        return points
    ordered = sorted(points, key=lambda point: (point.n, point.onset.lower, min(point.onset.upper, 1e300)))
    return [ordered[round(k)] for k in np.linspace(0, len(ordered) - 1, MOST_POINTS)]


def draw_interval(axis: Any, n: float, lower: float, upper: float, colour: str) -> None:
    """Draw an interval as a bar, or as an arrow where one end is open."""
    if math.isinf(upper) or lower <= 0:
        start = lower if math.isinf(upper) else upper
        end = start * 1.7 if math.isinf(upper) else start / 1.7
        if start > 0:
            arrow_style = {"arrowstyle": "->", "color": colour, "linewidth": 1.1}
            axis.annotate("", xy=(n, end), xytext=(n, start), arrowprops=arrow_style)
            axis.plot([n], [start], marker="_", color=colour, markersize=7)
            axis.plot([n], [end], alpha=0)  # the axes make room for the arrow's head
        return
    axis.plot([n, n], [lower, upper], color=colour, linewidth=1.1, alpha=0.7)


def spread(sizes: Sequence[int]) -> list[float]:
    """Places on the axis, where runs of one size lie side by side so that their bars do not overlap.

    More than eleven of one size lie closer together, so that neighbouring sizes stay apart.
    """
    step = min(1.03, 1.18 ** (2 / max(Counter(sizes).values(), default=1)))
    seen: dict[int, int] = {}
    places = []
    for n in sizes:
        count = seen.get(n, 0)
        seen[n] = count + 1
        places.append(n * step ** ((count + 1) // 2 * (1 if count % 2 else -1)))
    return places


def law_rows(laws: Laws) -> list[dict[str, str]]:
    """The fits as a table of text."""
    rows = []
    for row in laws.rows:
        law = row.law
        if law is None:
            rows.append(
                {
                    "runs": row.label,
                    "a": "",
                    "α": "",
                    "95%": "",
                    "R²": "",
                    "scatter": "",
                    "points": "",
                    "power law": f"none: {row.reason}",
                }
            )
            continue
        low, high = (f"{end:.2f}" for end in law.alpha_ci)
        censored = f" ({law.censored:,} censored)" if law.censored else ""
        explained = "" if law.r_squared is None else f"{law.r_squared:.2f}"
        words = {"runs": row.label, "a": f"{law.a:.3g}", "α": f"{law.alpha:.2f}", "95%": f"{low} to {high}"}
        words |= {"R²": explained, "scatter": f"{law.scatter:.2f}", "points": f"{law.points:,}{censored}"}
        rows.append({**words, "power law": f"none: {law.weakness}" if law.weakness else "yes"})
    return rows
