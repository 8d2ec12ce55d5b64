"""P1 Fig. 10: τ_mem over N for all networks and group sizes, with their power laws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from twoclocks.core.theme import light
from twoclocks.papers.drawing import BY_GROUP, colours_of, name_panel, new_figure
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.curves import (
    MODELS,
    LawLine,
    RunCurves,
    law_line,
    law_words,
    seeds_words,
    some_curves,
)
from twoclocks.papers.two_clocks.panels import draw_law_line, draw_onsets, onset_axis, sizes_axis
from twoclocks.papers.two_clocks.printed_fits import PRINTED_FITS
from twoclocks.report.drawings.parts import SMALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ModelLaws:
    """One panel: the runs of a network, the law of each group size and of all."""

    preset: str
    runs: tuple[RunCurves, ...]
    pooled: LawLine
    by_group: dict[int, LawLine]


@dataclass(frozen=True)
class LawsInfo:
    """The data of the figure."""

    panels: tuple[ModelLaws, ...]


@FIGURES.register("fig10")
class MemorizationLaws(PaperFigure[LawsInfo]):
    """τ_mem over N."""

    id: ClassVar[str] = "fig10"
    title: ClassVar[str] = "Memorization onset over the number of training samples"
    shows: ClassVar[str] = (
        "τ_mem over N for all sizes of DiT and GPT and all G, one point per run; dashed: power laws by network and G, "
        "with exponents near 1 to 1.1 throughout (Table 4)."
    )
    claims: ClassVar[tuple[str, ...]] = ("A6", "A7")
    grids: ClassVar[tuple[str, ...]] = (
        *("calibration-memory", "gpt-law", "gpt-groups", "dit-groups", "dit-groups-small", "dit-law", "network-sizes"),
    )

    def data(self, records: Records) -> LawsInfo:
        return LawsInfo(tuple(model_laws(records)))

    def draw(self, info: LawsInfo) -> Figure:
        from matplotlib.lines import Line2D

        colours = colours_of([one.group for panel in info.panels for one in panel.runs], BY_GROUP)
        columns = min(len(info.panels), 3)
        lines = -(-len(info.panels) // columns)
        with new_figure(max(4.1 * columns, 6.4), 0.6 + 3.5 * lines) as figure:
            axes = figure.subplots(lines, columns, squeeze=False)
            for axis in axes.flat[len(info.panels) :]:
                axis.set_visible(False)
            for axis, panel in zip(axes.flat, info.panels, strict=False):
                draw_panel(axis, panel, colours)
            handles = [Line2D([], [], color=shade, linewidth=2, label=f"G = {g}") for g, shade in colours.items()]
            fits = (("memory", "-", "pooled"), ("muted", ":", "pooled, paper"), ("ink", "--", "by G"))
            handles += [Line2D([], [], color=light(c), linestyle=dash, label=words) for c, dash, words in fits]
            figure.legend(handles=handles, loc="outside lower center", ncols=6, **SMALL)
            return figure

    def caption(self, info: LawsInfo) -> str:
        words = []
        for panel in info.panels:
            printed = PRINTED_FITS.get(panel.preset)
            paper = f", paper {law_words(printed[None].a, printed[None].alpha)}" if printed else ""
            words.append(f"{MODELS[panel.preset]} {panel.pooled.words}{paper} ({seeds_words(panel.runs)})")
        missing = [name for preset, name in MODELS.items() if preset not in {panel.preset for panel in info.panels}]
        return (
            "τ_mem of every run, between which evaluations, over N; ↑: not reached by the end of the run. "
            f"Pooled over G, with the 95% interval of the exponent: {'; '.join(words)}. Exponent 1 means a fixed "
            "number of passes over the training set." + (f" Not run yet: {', '.join(missing)}." if missing else "")
        )


def model_laws(records: Records) -> list[ModelLaws]:
    """One panel per network with runs."""
    runs = some_curves(records, *MODELS, clock="memory")
    panels = []
    for preset in MODELS:
        own = tuple(one for one in runs if one.preset == preset)
        groups = sorted({one.group for one in own})
        by_group = {group: law_line(f"G = {group}", [one for one in own if one.group == group]) for group in groups}
        if own:
            panels.append(ModelLaws(preset, own, law_line("all", own), by_group))
    return panels


def draw_panel(axis: Any, panel: ModelLaws, colours: dict[int, Any]) -> None:
    """The onsets of a network, with its laws."""
    draw_onsets(axis, panel.runs, "memory", lambda one: one.n, lambda one: colours[one.group])
    for group, line in panel.by_group.items():
        draw_law_line(axis, line, colours[group], linewidth=0.8)
    draw_law_line(axis, panel.pooled, light("memory"), linestyle="-", linewidth=1.6)
    sizes_axis(axis, [one.n for one in panel.runs])
    printed = PRINTED_FITS.get(panel.preset)
    if printed:
        ends = axis.get_xlim()
        axis.plot(ends, [printed[None].at(end) for end in ends], color=light("muted"), linestyle=":", linewidth=1.4)
    onset_axis(axis, "τ_mem (steps)")
    name_panel(axis, "", f"{MODELS[panel.preset]}: {panel.pooled.words}")
