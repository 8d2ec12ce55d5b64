"""The drawing of P1 Figs. 24 to 27: curves and clocks over the learning rate or the weight decay at G = 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from twoclocks.core.arrays import Floats
from twoclocks.core.theme import light
from twoclocks.evaluation import SampleAccuracy, SampleMemorization
from twoclocks.papers.drawing import log_steps, styled
from twoclocks.papers.figure import MissingRunsError, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.times import UNREACHED, Times, draw_times, rule_and_memory, seeds_words
from twoclocks.report.drawings.parts import SMALL, figure_of, on_log
from twoclocks.runs.columns import STEP

GROUP = 6
OPTIMIZER = "training.optimizer"  # Adam and AdamW are the same without weight decay


@dataclass(frozen=True)
class SweepCurve:
    """One run."""

    steps: Floats
    valid: Floats
    copied: Floats


@dataclass(frozen=True)
class SweepValue:
    """The runs of one learning rate or weight decay."""

    value: float
    curves: tuple[SweepCurve, ...]
    learned: Times
    copied: Times


@dataclass(frozen=True)
class SweepInfo:
    n: int
    seeds: str
    chance_valid: float  # of uniform symbols
    values: tuple[SweepValue, ...]

    @property
    def steps(self) -> tuple[float, float]:
        """First step after 0 and last step of all runs."""
        every = [curve.steps for one in self.values for curve in one.curves]
        return min(float(steps[steps > 0].min()) for steps in every), max(float(steps[-1]) for steps in every)


class OptimizerSweep(PaperFigure[SweepInfo]):
    """A sweep over one setting of the optimizer."""

    claims: ClassVar[tuple[str, ...]] = ("A19",)
    preset: ClassVar[str]
    network: ClassVar[str]  # in words
    varied: ClassVar[str]  # dotted name of the setting
    about: ClassVar[str]  # the setting in words
    paper: ClassVar[str]  # what P1 finds

    def data(self, records: Records) -> SweepInfo:
        runs = records.where(preset=self.preset, rule__name="parity", rule__group=GROUP)
        chosen = runs.family((self.varied, OPTIMIZER))
        values = []
        for value, ones in chosen.by(self.varied).items():
            columns = [one.run.metrics() for one in ones]
            curves = tuple(SweepCurve(c[STEP], c[SampleAccuracy.name], c[SampleMemorization.name]) for c in columns)
            values.append(SweepValue(float(value), curves, *rule_and_memory(ones)))
        if len(values) < 2:
            raise MissingRunsError(
                f"{self.network} at G = {GROUP} has runs of {len(values)} value{'s' if len(values) != 1 else ''} of "
                f"{self.varied}, and a sweep needs 2; make the runs of grid {self.grids[0]!r}"
            )
        seeds = seeds_words(chosen.by(self.varied).values())
        return SweepInfo(chosen[0].n, seeds, float(chosen[0].run.settings.rule.chance()), tuple(values))

    @styled
    def draw(self, info: SweepInfo) -> Any:
        figure = figure_of(10.4, 3.4)
        left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1.05])
        for one, colour in zip(info.values, colours(len(info.values)), strict=True):
            for number, curve in enumerate(one.curves):
                label = None if number else number_words(one.value)
                left.plot(on_log(curve.steps), curve.valid, color=colour, label=label, linewidth=1.4)
                middle.plot(on_log(curve.steps), curve.copied, color=colour, linewidth=1.4)
        left.axhline(info.chance_valid, color=light("muted"), linestyle=(0, (5, 4)), linewidth=1)
        for axis, title in ((left, "valid samples (rule accuracy)"), (middle, "copies of training samples")):
            axis.set(ylim=(-0.02, 1.04), xlim=info.steps, xlabel="training step")
            axis.set_title(title, fontsize=9)
            log_steps(axis, "x")
        left.set_ylabel("proportion of samples")
        left.legend(loc="upper left", title=self.about, **TITLED)
        for x, one in enumerate(info.values):
            draw_times(right, x - 0.13, one.learned, "rule", "o", None if x else "τ_rule")
            draw_times(right, x + 0.13, one.copied, "memory", "s", None if x else "τ_mem")
        if any(one.learned.limits or one.copied.limits for one in info.values):
            right.plot([], [], linestyle="none", label=UNREACHED)
        right.set_xticks(range(len(info.values)), [number_words(one.value) for one in info.values], fontsize=8)
        right.grid(False, axis="x")
        right.set(xlabel=self.about, ylabel="training step", xlim=(-0.6, len(info.values) - 0.4))
        right.margins(y=0.12)
        log_steps(right, "y")
        right.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, **SMALL)
        return figure

    def caption(self, info: SweepInfo) -> str:
        said = "; ".join(f"{number_words(one.value)}: τ_rule {one.learned}, τ_mem {one.copied}" for one in info.values)
        return (
            f"{self.network} on parity with G = {GROUP} and N = {info.n:,}, one curve per run, coloured by "
            f"{self.about}; dashed: uniform bits ({info.chance_valid:.2g} valid). By {self.about} ({info.seeds}): "
            f"{said}. A rule that becomes valid only by copying does not count as learned. P1: {self.paper}."
        )


def number_words(value: float) -> str:
    """A learning rate or weight decay as it is written in papers.

    >>> number_words(1e-4), number_words(0.3), number_words(0.0)
    ('1e-4', '0.3', '0')
    """
    return f"{value:.0e}".replace("e-0", "e-") if 0 < value < 0.1 else f"{value:g}"


def colours(count: int) -> Any:
    """Colours from small to large values, further apart than those of checkpoints."""
    import matplotlib

    return matplotlib.colormaps["plasma"]([0.9 * k / max(count - 1, 1) for k in range(count)])


TITLED: dict[str, Any] = {**SMALL, "title_fontsize": 7.5}
