"""The "Twins" chapter: how two models with disjoint data agree over training, and how near each is to its own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twoclocks.analysis.agreement import Agreement
from twoclocks.analysis.twins import compare_twins, twin_pairs
from twoclocks.analysis.twins_info import NAMES, TwinsInfo
from twoclocks.core.errors import UserError
from twoclocks.core.theme import light, style
from twoclocks.report.drawings.parts import figure_of, line_with_band, on_log, step_axis
from twoclocks.report.legends import legend_below
from twoclocks.report.plot import plot
from twoclocks.runs.load import Run

MOST = 6  # pairs that a page shows
DASHES = ("-", (0, (4, 1.5)))  # of A and of B
CHANCE: dict[str, Any] = {"linestyle": (0, (1, 2)), "linewidth": 1.1}
CLOCKS = (("rule", "τ_rule"), ("memory", "τ_mem"))
Panel = Callable[[Any, TwinsInfo], None]


@dataclass(frozen=True)
class TwinsSection:
    title: str
    figure: str  # SVG
    sentences: list[str]


@dataclass(frozen=True)
class TwinsChapter:
    sections: list[TwinsSection]
    more: int  # pairs that are not shown


def twins_chapter(runs: Sequence[Run], infos: Sequence[TwinsInfo] | None = None) -> TwinsChapter | None:
    """The chapter of ``infos``, or of all twins among the runs, from stored samples and measurements."""
    import matplotlib

    more = 0
    if infos is None:
        pairs = twin_pairs(runs)
        more = max(0, len(pairs) - MOST)
        infos = [info for a, b in pairs[:MOST] if (info := known_twins(a, b)) is not None]
    sections = []
    for number, info in enumerate(infos, start=1):
        title, sentences = " and ".join(info.labels), info.sentences()
        with matplotlib.rc_context(style()):
            figure = plot(draw(info), f"twins{number}", f"Agreement of {title} over training. {' '.join(sentences)}")
        sections.append(TwinsSection(title, figure, sentences))
    return TwinsChapter(sections, more) if sections else None


def known_twins(a: Run, b: Run) -> TwinsInfo | None:
    """The comparison of two runs without loading weights; None before both have stored samples."""
    try:
        return compare_twins(a, b, only_remembered=True)
    except UserError:
        return None


def draw(info: TwinsInfo) -> Any:
    panels: list[Panel] = [draw_samples, draw_copies, draw_cosine if info.real else draw_distance]
    if info.outputs is not None:
        panels.insert(1, draw_outputs)
    columns = 3 if len(panels) == 3 else 2
    rows = len(panels) // columns
    figure = figure_of(3.5 * columns if columns == 3 else 9.6, 3.6 * rows)
    for panel, axis in zip(panels, figure.subplots(rows, columns, squeeze=False).flat, strict=True):
        panel(axis, info)
        step_axis(axis, info.steps)
        mark_both(axis, info)
        legend_below(axis, ncols=2)
    return figure


def draw_samples(axis: Any, info: TwinsInfo) -> None:
    """Agreement of samples from the same noise."""
    found, x = info.samples, on_log(info.steps)
    what = ("whitened cosine" if info.real else "cosine") if info.images else "equal tokens"
    line_with_band(axis, x, 1 - found.mean, 1 - found.high, 1 - found.low, light("ink"), label=what)
    axis.plot(x, 1 - found.chance, color=light("ink"), label=f"{what}, by chance", **CHANCE)
    line_with_band(axis, x, info.same, *info.same_interval(), light("new"), label="identical samples")
    axis.plot(x, info.same_chance, color=light("new"), label="identical, by chance", **CHANCE)
    axis.set_title("samples of A and B from the same noise", fontsize=9, pad=32)
    axis.set_ylabel("agreement")
    axis.set_ylim(min(-0.03, float((1 - found.chance).min()) - 0.03), 1.03)
    mark_parting(axis, found)


def draw_outputs(axis: Any, info: TwinsInfo) -> None:
    """Distance of the probabilities of tokens."""
    found = info.outputs
    assert found is not None
    x = on_log(found.steps)
    line_with_band(axis, x, found.mean, found.low, found.high, light("ink"), label="same string")
    axis.plot(x, found.chance, color=light("ink"), label="by chance (different strings)", **CHANCE)
    axis.set_title(f"outputs of A and B on {info.strings:,} strings of neither set", fontsize=9, pad=32)
    axis.set_ylabel("Hellinger distance")
    axis.set_ylim(bottom=0)
    mark_parting(axis, found)


def draw_copies(axis: Any, info: TwinsInfo) -> None:
    """Draw the proportion of samples that are copies from either training set."""
    low, high = info.copies_interval()
    for k, name in enumerate(NAMES):
        for other, colour, whose in ((k, "memory", "its own"), (1 - k, "muted", "the other's")):
            values = info.copies[:, k, other], low[:, k, other], high[:, k, other]
            label = f"{name}, of {whose} set"
            line_with_band(axis, on_log(info.steps), *values, light(colour), linestyle=DASHES[k], label=label)
    axis.axhline(info.chance, color=light("ink"), label="by chance", **CHANCE)
    axis.set_title("copies of training samples", fontsize=9, pad=32)
    axis.set_ylabel("proportion of samples")
    axis.set_ylim(-0.03, 1.03)


def draw_distance(axis: Any, info: TwinsInfo) -> None:
    """Distance to the nearest sample of either training set."""
    for k, name in enumerate(NAMES):
        for other, colour, whose in ((k, "memory", "its own"), (1 - k, "muted", "the other's")):
            mean, reach = info.distance[:, k, other], 2 * info.distance_error[:, k, other]
            values, label = (mean, mean - reach, mean + reach), f"{name}, to {whose} set"
            line_with_band(axis, on_log(info.steps), *values, light(colour), linestyle=DASHES[k], label=label)
    axis.set_title("nearest training sample", fontsize=9, pad=32)
    axis.set_ylabel("entries that differ, mean")
    axis.set_ylim(bottom=0)


def draw_cosine(axis: Any, info: TwinsInfo) -> None:
    """Cosine to the nearest image of either training set, beside that of the two models (P2 Fig. 2)."""
    assert info.cosine is not None
    for k, name in enumerate(NAMES):
        for other, colour, whose in ((k, "memory", "its own"), (1 - k, "muted", "the other's")):
            label = f"{name}, to {whose} set"
            style = {"color": light(colour), "linestyle": DASHES[k], "label": label}
            axis.plot(on_log(info.steps), info.cosine[:, k, other], **style)
    axis.plot(on_log(info.steps), 1 - info.samples.mean, color=light("ink"), label="A to B")
    axis.set_title("nearest training image", fontsize=9, pad=32)
    axis.set_ylabel("whitened cosine, mean")
    axis.set_ylim(min(0.0, float((1 - info.samples.mean).min())), 1.03)


def mark_parting(axis: Any, found: Agreement) -> None:
    """Mark the interval in which the twins begin to differ, with the confidence of their clocks."""
    here = found.parting
    if here is not None and here.seen:
        left = max(here.lower, float(on_log(found.steps)[0]))
        band_style: dict[str, Any] = {"color": light("muted"), "alpha": 0.28, "linewidth": 0, "zorder": 0}
        axis.axvspan(left, here.upper, label="they part", **band_style)


def mark_both(axis: Any, info: TwinsInfo) -> None:
    """The clocks of A and B as bars in two lines above the panel, each as wide as its interval; their open window."""
    low, high = axis.get_xlim()
    if info.shared.window is not None:
        begin, end = info.shared.window
        axis.axvspan(max(begin, low), min(end, high), color=light("window"), linewidth=0, zorder=-1)
    place: dict[str, Any] = {"transform": axis.get_xaxis_transform(), "clip_on": False}
    for line, (name, clocks) in enumerate(zip(NAMES, info.clocks, strict=True)):
        height = 1.09 - 0.045 * line
        if clocks is None:
            continue
        axis.text(low, height, f"{name} ", fontsize=7, ha="right", va="center", color=light("muted"), **place)
        for field, label in CLOCKS:
            onset = getattr(clocks, field)
            if not onset.seen:
                continue
            ends = [max(onset.lower, low), min(onset.upper, high)]
            axis.plot(ends, [height] * 2, color=light(field), linewidth=4, solid_capstyle="butt", **place)
            if not line:
                words = {"fontsize": 7.5, "va": "bottom", "ha": "center", "color": light(field)}
                axis.text((ends[0] * ends[1]) ** 0.5, height + 0.02, label, **words, **place)
    axis.set_xlim(low, high)
