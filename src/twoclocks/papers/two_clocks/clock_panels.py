"""The eight panels of P1's Figs. 2 and 20: what moves the two clocks of a family of networks (DiT or GPT)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twoclocks.analysis.groups import grouped
from twoclocks.core.theme import light
from twoclocks.papers.drawing import BY_GROUP, BY_SIZE, colour_legend, colours_of, name_panel, new_figure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.curves import (
    MODELS,
    ClockName,
    LawLine,
    RunCurves,
    clock_runs,
    law_line,
    law_words,
    middle_onset,
    numbers_words,
    plain_curves,
    seeds_words,
    shown_group,
    shown_run,
    shown_size,
    some_curves,
)
from twoclocks.papers.two_clocks.panels import (
    CLOCKS,
    MODEL_MARKERS,
    accuracy,
    draw_family,
    draw_law_line,
    draw_onsets,
    draw_single,
    memorization,
    onset_axis,
    proportion_axis,
    sizes_axis,
)
from twoclocks.papers.two_clocks.printed_fits import PRINTED_FITS, PrintedFit
from twoclocks.papers.two_clocks.schematic import draw_schematic
from twoclocks.report.drawings.parts import SMALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAYOUT = [["A", "B", "C"], ["D1", "D2", "E"], ["F", "G", "H"]]


@dataclass(frozen=True)
class ClockPanels:
    """The data of the figure."""

    mini: str  # the preset of the middle network
    single: RunCurves  # B
    n: int  # of C, E and F
    models: tuple[RunCurves, ...]  # C: all networks, at this N
    over_sizes: tuple[RunCurves, ...]  # D: the middle network, all group sizes and N
    groups: tuple[RunCurves, ...]  # E, F: the middle network at this N
    group: int  # of G and H
    sizes: tuple[RunCurves, ...]  # G, H: the middle network at this group size
    law: LawLine  # pooled
    printed: PrintedFit

    @property
    def missing(self) -> list[str]:
        """What the paper's figure shows and these runs do not."""
        family = self.mini.rpartition("-")[0]
        there = {one.preset for one in self.models}
        absent = [f"{MODELS[f'{family}-{size}']} (C)" for size in ("nano", "b") if f"{family}-{size}" not in there]
        if not self.single.clocks.memory.seen:
            absent.append("a run that reaches τ_mem (B)")
        if len({one.group for one in self.groups}) < 2:
            absent.append(f"other group sizes at N = {self.n:,} (C, E, F)")
        return absent

    @property
    def onset_passes(self) -> list[tuple[int, float]]:
        """N, and steps·batch/N at τ_mem, of the runs of H that reached it."""
        found = [(one, one.clocks.memory.estimate) for one in clock_runs(self.sizes, "memory")]
        return [(one.n, at * one.batch / one.n) for one, at in found if at is not None]


def clock_panels(records: Records, mini: str) -> ClockPanels:
    """The data of all panels, from the plain runs of a family."""
    family = mini.rpartition("-")[0]
    runs = some_curves(records, mini)
    every = plain_curves(records, *(preset for preset in MODELS if preset.startswith(family)))
    n, group = shown_size(every), shown_group(runs)
    if not any(one.n == n for one in runs):
        n = shown_size(runs)
    return ClockPanels(
        mini=mini,
        single=shown_run(runs),
        n=n,
        models=tuple(one for one in every if one.n == n),
        over_sizes=runs,
        groups=tuple(one for one in runs if one.n == n),
        group=group,
        sizes=tuple(one for one in runs if one.group == group),
        law=law_line("pooled", runs),
        printed=PRINTED_FITS[mini][None],
    )


def draw_clock_panels(info: ClockPanels) -> Figure:
    """All panels, lettered as in the paper; D has two parts."""
    with new_figure(12.6, 9.6) as figure:
        axes: dict[str, Any] = figure.subplot_mosaic(LAYOUT)
        draw_schematic(axes["A"])
        name_panel(axes["A"], "A", "what delays which clock")
        draw_single(axes["B"], info.single)
        name_panel(axes["B"], "B", f"{info.single.model}, G = {info.single.group}, N = {info.single.n:,}")
        draw_models(axes["C"], info)
        draw_over_sizes(axes["D1"], info, "rule", "D(i)")
        draw_over_sizes(axes["D2"], info, "memory", "D(ii)")
        draw_curves_by_group(axes["E"], info, "rule", "E")
        draw_curves_by_group(axes["F"], info, "memory", "F")
        colours = colours_of([one.n for one in info.sizes], BY_SIZE)
        for letter, values, label in (("G", accuracy, "rule accuracy"), ("H", memorization, "memorization ratio")):
            runs = info.sizes if letter == "G" else clock_runs(info.sizes, "memory") or info.sizes
            draw_family(axes[letter], runs, values, lambda one: one.n, colours, by_passes=letter == "H")
            proportion_axis(axes[letter], label)
            colour_legend(axes[letter], colours, f"N (G = {info.group})", loc="center left")
        name_panel(axes["G"], "G", "rule accuracy by N")
        name_panel(axes["H"], "H", "memorization on steps per sample")
        return figure


def draw_models(axis: Any, info: ClockPanels) -> None:
    """C: both clocks over the group size, one marker per network, moved a little so that they do not overlap."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import NullLocator

    presets = [preset for preset in MODELS if any(one.preset == preset for one in info.models)]
    shift = {preset: 1.05 ** (k - (len(presets) - 1) / 2) for k, preset in enumerate(presets)}
    clocks: tuple[ClockName, ...] = ("rule", "memory")
    for clock in clocks:
        draw_onsets(axis, info.models, clock, lambda one: one.group * shift[one.preset])
        for preset in presets:
            by_group = grouped([one for one in info.models if one.preset == preset], lambda one: one.group)
            line = [(group * shift[preset], middle_onset(runs, clock)) for group, runs in by_group.items()]
            seen = [(x, y) for x, y in line if y is not None]
            if seen:
                axis.plot(*zip(*seen, strict=True), color=light(clock), linewidth=0.9, alpha=0.6)
    groups = sorted({one.group for one in info.models})
    axis.set_xscale("log")
    axis.set_xticks(groups, labels=[str(group) for group in groups])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlim(groups[0] / 1.25, groups[-1] * 1.25)
    axis.set_xlabel("group size G")
    onset_axis(axis, "onset (steps)")
    handles = [Line2D([], [], color=light(clock), label=CLOCKS[clock]) for clock in clocks]
    for preset in presets:
        marker = MODEL_MARKERS[MODELS[preset].partition("-")[2]]
        handles.append(
            Line2D([], [], color=light("muted"), marker=marker, linestyle="none", markersize=4, label=MODELS[preset])
        )
    axis.legend(handles=handles, loc="best", **SMALL)
    name_panel(axis, "C", f"clocks by group size, N = {info.n:,}")


def draw_over_sizes(axis: Any, info: ClockPanels, clock: ClockName, letter: str) -> None:
    """D: one clock over N, by group size."""
    colours = colours_of([one.group for one in info.over_sizes], BY_GROUP)
    draw_onsets(axis, info.over_sizes, clock, lambda one: one.n, lambda one: colours[one.group])
    sizes_axis(axis, [one.n for one in info.over_sizes])
    if clock == "memory":
        draw_law_line(axis, info.law, light("memory"))
        ends = axis.get_xlim()
        paper = {"color": light("muted"), "linestyle": ":", "linewidth": 1.3}
        axis.plot(ends, [info.printed.at(end) for end in ends], **paper)
        place = {"transform": axis.transAxes, "fontsize": 7.5, "va": "top"}
        axis.text(0.03, 0.97, f"ours: {info.law.words}", color=light("memory"), **place)
        printed = f"paper: {law_words(info.printed.a, info.printed.alpha)} (dotted)"
        axis.text(0.03, 0.9, printed, color=light("muted"), **place)
    onset_axis(axis, f"{CLOCKS[clock]} (steps)")
    if clock == "rule":  # the colours of (ii) are the same
        colour_legend(axis, colours, "G", ncols=2)
    name_panel(axis, letter, f"{CLOCKS[clock]} over N, {MODELS[info.mini]}")


def draw_curves_by_group(axis: Any, info: ClockPanels, clock: ClockName, letter: str) -> None:
    """E and F: accuracy or memorization over steps, by group size."""
    colours = colours_of([one.group for one in info.groups], BY_GROUP)
    values, label = (accuracy, "rule accuracy") if clock == "rule" else (memorization, "memorization ratio")
    runs = clock_runs(info.groups, clock) or info.groups
    draw_family(axis, runs, values, lambda one: one.group, colours)
    proportion_axis(axis, label)
    colour_legend(axis, colours, f"G (N = {info.n:,})", ncols=2, loc="best")
    name_panel(axis, letter, f"{label} by G")


def clock_caption(info: ClockPanels) -> str:
    """What is seen, our numbers, and the paper's."""
    one = info.single
    by_group = grouped(info.groups, lambda run: run.group)
    clocks = [
        f"{group}: {onset_words(runs, 'rule')} / {onset_words(runs, 'memory')}" for group, runs in by_group.items()
    ]
    sizes, passes = zip(*info.onset_passes, strict=True) if info.onset_passes else ((), ())
    collapse = (
        f"τ_mem lies at {min(passes):,.0f} to {max(passes):,.0f} steps per sample over N "
        f"{numbers_words(sizes)} (H; a factor of {max(passes) / min(passes):.2f})."
        if passes
        else "No run of H reached τ_mem."
    )
    law = f"Law (D): τ_mem = {info.law.words}" if info.law.law else f"No law (D): {info.law.reason}"
    parts = [
        f"What moves the two clocks of {one.model} and its relatives.",
        f"B: one run at G = {one.group}, N = {one.n:,}: τ_rule {one.clocks.rule}, τ_mem {one.clocks.memory}.",
        f"τ_rule / τ_mem by G at N = {info.n:,} ({seeds_words(info.groups)}): {'; '.join(clocks)}.",
        f"{law}; the paper's is {law_words(info.printed.a, info.printed.alpha)} ({info.printed.points} runs).",
        collapse,
        "Bars: between which evaluations; ↑: not reached by the end of the run; ×: valid only as copies.",
    ]
    if info.missing:
        parts.append(f"Not run yet: {', '.join(info.missing)}.")
    return " ".join(parts)


def onset_words(runs: Sequence[RunCurves], clock: ClockName) -> str:
    """The median onset of runs that were made to show it, in steps."""
    used = clock_runs(runs, clock)
    at = middle_onset(used, clock) if used else None
    if at is not None:
        return f"{at:,.0f}"
    return "by copying" if any(one.clocks.learned_by_memory for one in used) and clock == "rule" else "not seen"
