"""P1 Fig. 21: both clocks of counting rules, beside parity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from twoclocks.core.theme import light
from twoclocks.papers.drawing import letter, log_steps, styled
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Record, Records
from twoclocks.papers.times import UNREACHED, Times, draw_times, rule_and_memory, seeds_words
from twoclocks.papers.two_clocks.fig05_binary_rules import NAMES, value_words
from twoclocks.papers.two_clocks.runs import DIT
from twoclocks.report.drawings.parts import SMALL, figure_of
from twoclocks.rules.base import RULES

VARIED = {"parity": "group", "exact_k": "k", "row_k": "k", "row_variable_k": "ks", "global_k": "ks"}
PANELS = ("exact_k", "row_k", "global_k", "row_variable_k")  # B to E
SHAPES = {"parity": {"length": 36}, "exact_k": {"length": 36}}  # the others have sides of 6


@dataclass(frozen=True)
class RuleTimes:
    """The clocks of one rule over its seeds."""

    rule: str  # registered name
    value: str  # such as K = 9
    learned: Times
    copied: Times


@dataclass(frozen=True)
class CountingInfo:
    n: int
    seeds: str
    rules: tuple[RuleTimes, ...]

    def of(self, name: str) -> list[RuleTimes]:
        return [one for one in self.rules if one.rule == name]

    @property
    def pairs(self) -> float | None:
        """Median τ_rule of parity with G = 2."""
        return next((one.learned.middle for one in self.of("parity") if one.value == "G = 2"), None)


@FIGURES.register("fig21")
class CountingClocks(PaperFigure[CountingInfo]):
    """A: all rules; B to E: over K for each family."""

    id: ClassVar[str] = "fig21"
    title: ClassVar[str] = "Both clocks beyond parity"
    shows: ClassVar[str] = "τ_rule and τ_mem of DiT-mini on parity and counting rules, N = 4,096"
    claims: ClassVar[tuple[str, ...]] = ("A17",)
    grids: ClassVar[tuple[str, ...]] = ("counting",)

    def data(self, records: Records) -> CountingInfo:
        plain = records.where(preset=DIT, rule__name=tuple(VARIED)).those(is_plain)
        counted = plain.those(lambda one: one.value("rule.name") != "parity").family(("rule.",))
        if not counted:
            raise MissingRunsError("no run of DiT-mini on a counting rule is there; make the runs of grid 'counting'")
        same = plain.alike(counted[0].settings, ("rule.",))
        found = {
            (name, value_words(varied, value)): runs
            for name, varied in VARIED.items()
            for value, runs in same.where(rule__name=name).by(f"rule.{varied}").items()
        }
        rules = tuple(RuleTimes(*key, *rule_and_memory(runs)) for key, runs in found.items())
        return CountingInfo(counted[0].n, seeds_words(found.values()), rules)

    @styled
    def draw(self, info: CountingInfo) -> Any:
        figure = figure_of(9.6, 6.4)
        rows = figure.add_gridspec(2, 1, height_ratios=[1.15, 1])
        above = figure.add_subplot(rows[0])
        draw_rules(above, info.rules, [f"{NAMES[one.rule]}\n{one.value}" for one in info.rules], info.pairs)
        above.margins(y=0.12)
        above.legend(loc="lower right", bbox_to_anchor=(1, 1.0), ncols=4, **SMALL)
        letter(above, "A")
        below = rows[1].subgridspec(1, len(PANELS)).subplots(sharey=True)
        for axis, name, mark in zip(below, PANELS, "BCDE", strict=True):
            of_family = info.of(name)
            draw_rules(axis, of_family, [one.value for one in of_family], info.pairs)
            axis.set_title(NAMES[name], fontsize=9)
            letter(axis, mark)
            if not of_family:
                axis.text(0.5, 0.5, "not run yet", transform=axis.transAxes, ha="center", color=light("muted"))
            axis.margins(y=0.12)
        for axis in (above, below[0]):  # the others share its y axis
            axis.set_ylabel("training step")
            log_steps(axis, "y")
        return figure

    def caption(self, info: CountingInfo) -> str:
        said = "; ".join(f"{NAMES[one.rule]} {one.value}: {one.learned}" for one in info.rules)
        copied = "; ".join(dict.fromkeys(str(one.copied) for one in info.rules))
        missing = [NAMES[name] for name in VARIED if not info.of(name)]
        return (
            f"Steps of τ_rule (circles) and τ_mem (squares) of DiT-mini on 36 bits with N = {info.n:,}, one mark per "
            f"seed; dashed: parity with G = 2. τ_rule, median and range over {info.seeds}: {said}. τ_mem: {copied}."
            + (f" Not run yet: {', '.join(missing)}." if missing else "")
            + " P1: exact-K and row-K are learned about as early as parity with G = 2, whatever K; lists of K slightly "
            "later; τ_mem hardly depends on the rule."
        )


def is_plain(one: Record) -> bool:
    """Whether the rule is P1's own, without options such as scattered groups."""
    name = one.value("rule.name")
    shape = SHAPES.get(name, {"side": 6})
    value = one.value(f"rule.{VARIED[name]}")
    varied = {VARIED[name]: tuple(value) if isinstance(value, list) else value}
    return bool(one.run.settings.rule == RULES.create(name, **shape, **varied))


def draw_rules(axis: Any, rules: Iterable[RuleTimes], labels: list[str], pairs: float | None) -> None:
    """Both clocks of some rules side by side, and τ_rule of pairs of bits as a line."""
    for x, one in enumerate(rules):
        draw_times(axis, x - 0.2, one.learned, "rule", "o", "τ_rule" if not x else None, spread=0.1)
        draw_times(axis, x + 0.2, one.copied, "memory", "s", "τ_mem" if not x else None, spread=0.1)
    if pairs is not None:
        axis.axhline(pairs, color=light("muted"), linestyle=(0, (5, 4)), linewidth=1)
    axis.plot([], [], linestyle="none", marker=None, label=UNREACHED)
    axis.set_xticks(range(len(labels)), labels, fontsize=7.5)
    axis.set_xlim(-0.6, max(len(labels), 1) - 0.4)
    axis.grid(False, axis="x")
