"""Figure of a clock against the batch size, beside the lines of samples seen (P1's time) and of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoclocks.analysis.batches import BatchLaw
from twoclocks.analysis.laws import NAMES
from twoclocks.core.arrays import Floats
from twoclocks.core.text import short
from twoclocks.core.theme import light, style
from twoclocks.report.laws import draw_interval
from twoclocks.report.legends import legend_below

EXPECTED = {
    "samples seen: ∝ 1/batch (P1's time)": (-1.0, (0, (1, 1.5))),
    "steps: independent (P2: one hidden layer, fixed σ)": (0.0, (0, (5, 3))),
}


@dataclass(frozen=True)
class BatchInfo:
    """The data of one panel."""

    law: BatchLaw
    title: str
    places: Floats  # of the lines
    lines: dict[str, Floats]  # by what sets the clock, through the middle of the measured points

    @property
    def sentence(self) -> str:
        return f"{self.title}: {self.law.sentence()}."


def batch_info(law: BatchLaw, title: str | None = None) -> BatchInfo:
    seen = [(b, one.estimate) for b, one in zip(law.batches, law.onsets, strict=True) if one.estimate]
    middle = np.exp(np.log(np.array(seen, dtype=np.float64)).mean(axis=0))  # batch and clock
    places = np.geomspace(min(law.batches) / 1.2, max(law.batches) * 1.2, 20)
    lines = {name: middle[1] * (places / middle[0]) ** power for name, (power, _) in EXPECTED.items()}
    return BatchInfo(law, title or f"{law.label}, N = {law.n:,}", places, lines)


def draw_batches(infos: Sequence[BatchInfo], width: float = 3.7) -> Any:
    """One panel per law."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(max(width * len(infos), 4.8), 4.1), layout="constrained")
        axes = figure.subplots(1, len(infos), squeeze=False)[0]
        for axis, info in zip(axes, infos, strict=True):
            draw_panel(axis, info)
        return figure


def draw_panel(axis: Any, info: BatchInfo) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    law, colour = info.law, light("memory")
    for name, (_, dash) in EXPECTED.items():
        axis.plot(info.places, info.lines[name], color=light("muted"), linestyle=dash, linewidth=1.1, label=name)
    seen = [(b, one.estimate) for b, one in zip(law.batches, law.onsets, strict=True) if one.estimate]
    low, high = law.collapse.batch_power_ci
    label = f"measured: {law.collapse.batch_power:z.2f} ({low:z.2f} to {high:z.2f})"
    axis.plot(*zip(*seen, strict=True), color=colour, marker="o", linestyle="none", markersize=4.5, label=label)
    for batch, one in zip(law.batches, law.onsets, strict=True):
        draw_interval(axis, batch, one.lower, one.upper, colour)
    axis.set(
        xscale="log", yscale="log", xlabel="batch", ylabel=f"{NAMES[law.clock]} (steps)", title=short(info.title, 60)
    )
    axis.set_xticks(sorted(set(law.batches)), labels=[f"{batch:,}" for batch in sorted(set(law.batches))])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,g}"))
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_minor_formatter(NullFormatter())
    legend_below(axis, ncols=1)
