"""Figure of the kernel experiments (P2 Figs. 16–19): τ_gap against P, σ and batch, with the kernel's prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twoclocks.clocks.onset import Onset
from twoclocks.core.theme import light, style
from twoclocks.report.laws import draw_interval

AXES = {"size": "training points P", "noise": "noise σ", "batch": "batch"}  # one panel per entry
CLAIMED = {"size": "∝ P", "noise": "∝ 1/σ", "batch": "independent"}
SERIES = {"ntk": ("NTK", "rule", "o"), "mean_field": ("mean-field", "memory", "s"), "adam": ("NTK, Adam", "new", "^")}


@dataclass(frozen=True)
class OnsetSeries:
    """Onsets along one axis of the figure, and the fitted power."""

    name: str
    kind: str  # ntk, mean_field or adam
    places: tuple[float, ...]
    onsets: tuple[Onset, ...]
    predicted: tuple[float, ...]
    power: tuple[float, float, float, float] | None  # a, power and its 95% interval

    @property
    def fit(self) -> tuple[list[float], list[float]] | None:
        """The two ends of the fitted line; None without a fit."""
        if self.power is None:
            return None
        ends = [min(self.places), max(self.places)]
        return ends, [self.power[0] * end ** self.power[1] for end in ends]

    @property
    def label(self) -> str:
        """Name and fitted power, for the legend."""
        if self.power is None:
            return self.name
        _, power, low, high = self.power
        numbers = f"{power:z.2f} ({low:z.2f} to {high:z.2f})".replace("-", "−")
        return f"{self.name}: {numbers}"


@dataclass(frozen=True)
class KernelInfo:
    """The data of the figure: the series of each panel."""

    panels: Mapping[str, tuple[OnsetSeries, ...]]
    caption: str


def kernel_data(result: Mapping[str, Any]) -> KernelInfo:
    """Data of the figure from the result of the recipe p2-kernel, which may be unfinished."""
    panels: dict[str, list[OnsetSeries]] = {kind: [] for kind in AXES}
    for name, sweep in result["values"]["sweeps"].items():
        kind, _, panel = name.rpartition("-")
        if sweep["places"]:
            panels[panel].append(series_of(kind, sweep))
    return KernelInfo({kind: tuple(found) for kind, found in panels.items()}, result["measured"])


def series_of(kind: str, sweep: Mapping[str, Any]) -> OnsetSeries:
    """One series from its JSON form."""
    fitted = sweep["power"]
    ends = () if fitted is None else tuple(float("nan") if end is None else end for end in fitted["interval"])
    return OnsetSeries(
        name=f"{SERIES[kind][0]}, rate {'/'.join(f'{rate:g}' for rate in sweep['rates'])}",
        kind=kind,
        places=tuple(sweep["places"]),
        onsets=tuple(Onset.from_json(one) for one in sweep["onsets"]),
        predicted=tuple(sweep["predicted"]),
        power=None if fitted is None else (fitted["a"], fitted["power"], *ends),
    )


def draw_kernel(info: KernelInfo, width: float = 10.2) -> Any:
    """Draw three panels: points are measured, dashed lines fitted, grey lines predicted without free parameters."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(width, 4.3), layout="constrained")
        axes = figure.subplots(1, len(AXES), sharey=True)
        for axis, (kind, found) in zip(axes, info.panels.items(), strict=True):
            draw_panel(axis, kind, found)
        axes[0].set_ylabel("τ_gap (steps)")
        return figure


def draw_panel(axis: Any, kind: str, found: tuple[OnsetSeries, ...]) -> None:
    """Draw the series of one panel."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    for series in found:
        _, colour, marker = SERIES[series.kind]
        shade = light(colour)
        if series.kind == "ntk":  # the same for all limits: drawn once
            label = "NTK, predicted for its rate"
            axis.plot(series.places, series.predicted, color=light("muted"), linewidth=3.2, alpha=0.45, label=label)
        seen = [(x, one.estimate) for x, one in zip(series.places, series.onsets, strict=True) if one.estimate]
        marker_style = {"color": shade, "marker": marker, "linestyle": "none", "markersize": 5}
        axis.plot(*(zip(*seen, strict=True) if seen else ([], [])), label=series.label, **marker_style)
        for x, one in zip(series.places, series.onsets, strict=True):
            draw_interval(axis, x, one.lower, one.upper, shade)
        if series.fit is not None:
            axis.plot(*series.fit, color=shade, linewidth=1, linestyle=(0, (4, 3)))
    axis.set(xscale="log", yscale="log", xlabel=AXES[kind], title=f"P2: {CLAIMED[kind]}")
    places = sorted({x for series in found for x in series.places})
    axis.set_xticks(places, labels=[f"{x:.2g}" if x < 1 else f"{x:,.0f}" for x in places])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    if found:
        title = "fitted exponent (dashes), 95% interval"
        legend = axis.legend(loc="upper left", bbox_to_anchor=(0, -0.17), fontsize=8, title=title, title_fontsize=8)
        legend.set_alignment("left")
