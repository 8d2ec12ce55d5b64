"""Drawing of ``groups``: known pieces, coverage and copied blocks over training, with chance levels."""

from __future__ import annotations

from twoclocks.core.theme import light
from twoclocks.dissection.views.groups import GroupsInfo
from twoclocks.evaluation.metric import pieces_named
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing, Figure
from twoclocks.report.drawings.parts import figure_of, line_with_band, mark_clocks, shades, step_axis
from twoclocks.report.legends import legend_below

DASHES = ("-", "--", ":", "-.")


@DRAWINGS.register("groups")
class GroupsDrawing(Drawing):
    title = "Known pieces in new samples"
    order = 30

    def draw(self, info: GroupsInfo) -> Figure:
        figure = figure_of(9.6, 3.4)
        left, right = figure.subplots(1, 2)
        low, high = info.seen_interval()
        for k, kind in enumerate(info.kinds):
            dash = DASHES[k % len(DASHES)]
            values = info.seen[:, k], low[:, k], high[:, k]
            name = pieces_named(kind)
            line_with_band(
                left, info.steps, *values, light("memory"), label=f"{name} in the training set", linestyle=dash
            )
            left.plot(info.steps, info.coverage[:, k], color=light("new"), linestyle=dash, label=f"{name} covered")
            left.axhline(info.chance_seen[0, k], color=light("rule"), linewidth=0.9, linestyle=(0, (5, 4)))
            left.axhline(info.chance_seen[1, k], color=light("muted"), linewidth=0.9, linestyle=(0, (5, 4)))
        left.set(ylim=(0, 1.04), ylabel="fraction")
        left.set_title("pieces of samples that are not copies", fontsize=9)
        colours = shades(len(info.blocks))
        for k, (size, colour) in enumerate(zip(info.blocks, colours, strict=True)):
            right.plot(info.steps, info.block_seen[:, k], color=colour, label=f"{size} piece{'s' if size > 1 else ''}")
            right.axhline(info.chance_block[0, k], color=colour, linewidth=0.9, linestyle=(0, (5, 4)))
        right.set(ylim=(0, 1.04))
        right.set_title("blocks at the same position in a training sample", fontsize=9)
        for axis in (left, right):
            step_axis(axis, info.steps)
            mark_clocks(axis, info.clocks, named=False)
            legend_below(axis, ncols=2 if axis is left else 5)
        return figure
