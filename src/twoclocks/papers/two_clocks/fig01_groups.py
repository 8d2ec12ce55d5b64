"""P1 Fig. 1: group parity, and what networks of several depths have learned of it at the end of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from twoclocks.core.theme import light, symbol_colours
from twoclocks.papers.drawing import name_panel, new_figure
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.curves import MODELS, plain_records, shown_size, some_curves
from twoclocks.papers.two_clocks.endpoints import (
    LEGEND,
    Column,
    columns_by,
    draw_columns,
    ended_words,
    endpoint_words,
)
from twoclocks.rules.parity import Parity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DITS = tuple(preset for preset in MODELS if preset.startswith("p1-dit"))
SHOWN = Parity(length=36, group=6)  # the rule of panel A


@dataclass(frozen=True)
class GroupsInfo:
    """The data of the figure."""

    sample: npt.NDArray[np.int64]  # (36,): obeys the rule of panel A
    broken: npt.NDArray[np.int64]  # the same with one bit flipped
    columns: tuple[Column, ...]  # one per network, all of one N


@FIGURES.register("fig1")
class Groups(PaperFigure[GroupsInfo]):
    """Rule accuracy and memorization at the end of training."""

    id: ClassVar[str] = "fig1"
    title: ClassVar[str] = "Group parity: rule accuracy and memorization at the end of training"
    shows: ClassVar[str] = (
        "A: a sample of 36 bits in groups of 6, each of even parity. Accuracy and memorization of (B) samples and (C) "
        "groups over the group size, for DiT of several depths, N = 4,096. The printed caption is cut after C."
    )
    claims: ClassVar[tuple[str, ...]] = ("A3", "A5", "A11")
    grids: ClassVar[tuple[str, ...]] = ("dit-groups", "network-sizes")

    def data(self, records: Records) -> GroupsInfo:
        n = shown_size(some_curves(records, *DITS, clock="memory"))
        found = columns_by(plain_records(records, *DITS).where(data__n=n), lambda one: one.preset)
        sample = SHOWN.sample(1, seed=0)[0].numpy().reshape(-1)
        broken = sample.copy()
        broken[14] = 1 - broken[14]
        return GroupsInfo(sample, broken, tuple(found[preset] for preset in DITS if preset in found))

    def draw(self, info: GroupsInfo) -> Figure:
        count = len(info.columns)
        with new_figure(3.0 + 3.1 * max(count, 2), 6.2) as figure:
            parts = figure.add_gridspec(1, 2, width_ratios=[2.4, 3.0 * max(count, 2)])
            pictures: Any = parts[0].subgridspec(2, 1).subplots()
            draw_bits(pictures[0], info.sample, None)
            name_panel(pictures[0], "A", "valid: every group of\nsix (row) has even parity")
            draw_bits(pictures[1], info.broken, 2)
            name_panel(pictures[1], "", "one bit flipped: the group and\nthe sample break the rule")
            axes: Any = parts[1].subgridspec(2, count).subplots(squeeze=False)
            draw_columns(axes, info.columns, {"sample": "B", "group": "C"}, networks=True)
            figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower right", ncols=3, **LEGEND)
            return figure

    def caption(self, info: GroupsInfo) -> str:
        words = [f"{column.first.model}: {endpoint_words(column.samples)}" for column in info.columns]
        there = {column.first.preset for column in info.columns}
        missing = [MODELS[preset] for preset in DITS if preset not in there]
        ends = [one for column in info.columns for one in column.samples]
        return (
            "Rule accuracy (pale) and memorization (dark) at the last evaluation over the group size. "
            f"Valid / copied samples by G at N = {ends[0].n:,} ({ended_words(ends)}): {'; '.join(words)}. Paper "
            "(N = 4,096, about 500,000 steps): near 100% valid for small G, at chance plus copies from G = 9 on. "
            "Uniform bits are valid with chance 2^(−36/G)."
            + (f" Not run yet: {', '.join(missing)}." if missing else "")
            + ("" if any(column.groups for column in info.columns) else " These runs did not count groups (C).")
        )


def draw_bits(axis: Any, bits: npt.NDArray[np.int64], broken: int | None) -> None:
    """A sample as a picture of 6×6 bits, with a frame around each group; the broken one is marked."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    axis.imshow(bits.reshape(6, 6), cmap=ListedColormap(symbol_colours(2)), vmin=0, vmax=1)
    for row, ones in enumerate(bits.reshape(6, 6).sum(axis=1)):
        colour = light("broken" if row == broken else "new")
        axis.add_patch(Rectangle((-0.46, row - 0.44), 5.92, 0.88, fill=False, edgecolor=colour, linewidth=1.6))
        axis.text(5.7, row, f"{ones} ones", va="center", fontsize=7.5, color=colour)
    axis.set_axis_off()
