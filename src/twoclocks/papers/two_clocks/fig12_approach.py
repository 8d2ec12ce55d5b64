"""P1 Fig. 12: distance to the nearest training sample over training, for each group size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twoclocks.dissection.views.approach import ApproachInfo
from twoclocks.papers.drawing import styled
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.dissected import GRIDS, Seen, dissected, view_seeds
from twoclocks.papers.two_clocks.runs import GROUPS
from twoclocks.report.drawings.approach import draw_approach
from twoclocks.report.drawings.parts import SMALL, figure_of

ACROSS = 4  # panels per row


@dataclass(frozen=True)
class ApproachesInfo:
    groups: dict[int, Seen[ApproachInfo]]


@FIGURES.register("fig12")
class Approaches(PaperFigure[ApproachesInfo]):
    """One panel per group size."""

    id: ClassVar[str] = "fig12"
    title: ClassVar[str] = "Samples approach the training set before they are copies"
    shows: ClassVar[str] = "mean Hamming distance of samples to the nearest training sample, for each G"
    claims: ClassVar[tuple[str, ...]] = ("A13",)
    grids: ClassVar[tuple[str, ...]] = GRIDS

    def data(self, records: Records) -> ApproachesInfo:
        chosen = {group: dissected(records, group, weights=False) for group in GROUPS}
        views = {group: view_seeds(runs, "approach") for group, runs in chosen.items()}
        found = {group: one for group, one in views.items() if one is not None}
        if not found:
            raise MissingRunsError(
                f"no run of DiT-mini on parity has the view 'approach'; make the runs of grid {GRIDS[0]!r}"
            )
        return ApproachesInfo(found)

    @styled
    def draw(self, info: ApproachesInfo) -> Any:
        number = len(info.groups)
        across = min(ACROSS, number)
        down = -(-number // across)
        figure = figure_of(max(3.1 * across, 6.4), 0.5 + 2.7 * down)
        axes = figure.subplots(down, across, squeeze=False)
        for axis in axes.flat[number:]:
            axis.set_axis_off()
        for place, (axis, (group, found)) in enumerate(zip(axes.flat, info.groups.items(), strict=False)):
            draw_approach(axis, found.first)
            axis.set_title(f"G = {group}, N = {found.n:,}", fontsize=9, pad=14)
            if place % across == 0:
                axis.set_ylabel("distance to the nearest\ntraining sample (entries)", fontsize=8.5)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles[:4], labels[:4], loc="outside upper left", ncols=4, **SMALL)
        return figure

    def caption(self, info: ApproachesInfo) -> str:
        said = "; ".join(group_words(group, found) for group, found in info.groups.items())
        missing = [str(group) for group in GROUPS if group not in info.groups]
        return (
            "Mean Hamming distance from generated samples to the nearest training sample, with two standard errors; "
            "dashed: new samples of a perfect model of the rule; dotted: valid and new samples are nearer than that; "
            f"shaded: τ_rule (blue) and τ_mem (orange). DiT-mini: {said}."
            + (f" Not run yet: G = {', '.join(missing)}." if missing else "")
            + " P1: the distance of valid and new samples falls before τ_mem, for every G."
        )


def group_words(group: int, found: Seen[ApproachInfo]) -> str:
    """The last distance, its chance level and the lead over τ_mem of one group size."""
    seeds = len(found.views)
    known = any(np.isfinite(one.mean[-1, 2]) for one in found.views)
    last = f"{found.over_seeds(lambda one: float(one.mean[-1, 2]))} entries" if known else "no valid and new sample"
    leads = [one.lead for one in found.views if one.lead is not None]
    lead = found.over_seeds(lambda one: one.lead, ".1f")
    return (
        f"G = {group} ({seeds} seed{'s' if seeds != 1 else ''}): {last} at the end, chance "
        f"{found.first.chance:.2f}" + (f", nearer than chance {lead} times before τ_mem" if leads else "")
    )
