"""A11–A16: what P1 sees when it takes a run apart (§4, C.4, C.5), each claim judged on its own view.

All recipes share two runs; with the same ``--work`` folder they are trained once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from twoclocks.dissection import Info, dissect_run
from twoclocks.dissection.views.basin import LINES
from twoclocks.evaluation.states import STATES
from twoclocks.papers.recipe import RECIPES, Measurement, Recipe
from twoclocks.runs import Run, RunSettings, load_settings

SAMPLES, BAND = 1_024, (0.2, 2.0)
LENGTHS = {"p1-dit-mini": 150_000, "p1-gpt-mini": 12_000}  # steps well past τ_mem
EVEN = (0.4, 0.6)  # half-widths of a basin that reaches half-way


class Why(Recipe):
    """DiT-mini, 36 bits in groups of 3, N = 1,024, with 60 checkpoints kept."""

    preset: ClassVar[str] = "p1-dit-mini"
    view: ClassVar[str]

    def settings(self, device: str) -> dict[str, RunSettings]:
        change = {
            "data": {"n": SAMPLES},
            "training": {"steps": LENGTHS[self.preset], "device": device},
            "evaluation": {"evaluations": 60, "first": 30, "keep_weights": 60},
        }
        return {f"{self.preset}-n{SAMPLES}": load_settings(self.preset, change)}

    def measure(self, runs: Mapping[str, Run]) -> Measurement:
        (run,) = runs.values()
        info = dissect_run(run, [self.view]).infos[self.view]
        holds, words = self.judge(info)
        values = {"view": self.view, "sentences": info.sentences(), **info.numbers()}
        return Measurement("reproduced" if holds else "not reproduced", f"{words} (N={SAMPLES:,}, 1 seed)", values)

    @abstractmethod
    def judge(self, info: Any) -> tuple[bool, str]:
        """Whether the claim holds, and what was seen."""


def at_step(info: Info, step: float) -> int:
    """Index of the moment that is nearest to a step."""
    return int(np.abs(np.log(np.maximum(info.steps, 1) / max(step, 1.0))).argmin())


def in_window(info: Info) -> int | None:
    """Index of the moment in the middle of the innovation window."""
    if info.clocks is None or info.clocks.window is None:
        return None
    return at_step(info, float(np.sqrt(info.clocks.window[0] * min(info.clocks.window[1], info.steps[-1]))))


@RECIPES.register("p1-why-groups")
class Recombination(Why):
    claim: ClassVar[str] = "A11"
    paper: ClassVar[str] = "novelty is recombination: groups are copied, samples are new"
    criterion: ClassVar[str] = (
        "in the middle of the window, known groups within 2 points and copies within 5 points of a model of the rule"
    )
    view: ClassVar[str] = "groups"

    def judge(self, info: Any) -> tuple[bool, str]:
        at = in_window(info)
        if at is None:
            return False, "the window is not surely open"
        groups, chance = info.seen[at, 0], info.chance_seen[0, 0]
        whole, whole_chance = info.block_seen[at, -1], info.chance_block[0, -1]
        words = (
            f"step {info.steps[at]:,}: {groups:.1%} of groups in new samples are known (chance {chance:.1%}), "
            f"{whole:.1%} of samples are copies (chance {whole_chance:.2%})"
        )
        return abs(groups - chance) <= 0.02 and whole - whole_chance <= 0.05, words


@RECIPES.register("p1-why-raster")
class Sticky(Why):
    claim: ClassVar[str] = "A12"
    paper: ClassVar[str] = "memorized is sticky, rule error is transient"
    criterion: ClassVar[str] = "late, a copy surely stays more often than a broken rule"
    view: ClassVar[str] = "raster"

    def judge(self, info: Any) -> tuple[bool, str]:
        phase = info.windows[-1]
        copied, broken = STATES.index("memorized"), STATES.index("broken")
        words = ", ".join(
            f"{name} stays {phase.stay[k]:.2f} ({phase.stay_low[k]:.2f} to {phase.stay_high[k]:.2f})"
            for name, k in (("a copy", copied), ("a new sample", STATES.index("valid-new")), ("a broken rule", broken))
        )
        return bool(phase.stay_low[copied] > phase.stay_high[broken]), f"{phase.name}: {words}"


@RECIPES.register("p1-why-approach")
class Nearer(Why):
    claim: ClassVar[str] = "A13"
    paper: ClassVar[str] = "samples approach the training set before τ_mem"
    criterion: ClassVar[str] = "valid and new samples are surely nearer than chance before τ_mem's interval begins"
    view: ClassVar[str] = "approach"

    def judge(self, info: Any) -> tuple[bool, str]:
        if info.onset is None or info.memory is None:
            return False, "too few valid and new samples"
        return bool(info.onset.upper <= info.memory.lower), f"nearer {info.onset}, τ_mem {info.memory}"


@RECIPES.register("p1-why-spectrum")
class LossesFirst(Why):
    claim: ClassVar[str] = "A14"
    paper: ClassVar[str] = "losses split before samples do, at intermediate σ (0.2–2)"
    criterion: ClassVar[str] = "both loss clocks surely before the sample clocks; the gap peaks at a σ in the band"
    view: ClassVar[str] = "spectrum"

    def judge(self, info: Any) -> tuple[bool, str]:
        peak = info.peak()
        if peak is None or info.clocks is None:
            return False, "held-out and training loss do not split"
        early = info.rule_clock.upper <= info.clocks.rule.lower and info.memory_clock.upper <= info.clocks.memory.lower
        words = (
            f"rule: losses {info.rule_clock}, samples {info.clocks.rule}; memory: losses {info.memory_clock}, samples "
            f"{info.clocks.memory}; the gap peaks at σ = {peak[0]:.2g}"
        )
        return bool(early and BAND[0] <= peak[0] <= BAND[1]), words


@RECIPES.register("p1-why-basin")
class Basins(Why):
    claim: ClassVar[str] = "A15"
    paper: ClassVar[str] = "basins: symmetric, then rule-valid ones grow, then the training sample's"
    criterion: ClassVar[str] = (
        "half-widths: both even before the rule; in the window even towards valid and surely wider towards "
        "rule-breaking neighbours; at the end surely wider towards valid ones"
    )
    view: ClassVar[str] = "basin"

    def judge(self, info: Any) -> tuple[bool, str]:
        middle = in_window(info)
        if middle is None:
            return False, "the window is not surely open"
        early, late, level = at_step(info, info.clocks.rule.lower / 4), len(info.steps) - 1, info.level
        broken, unseen = LINES.index("rule-breaking"), LINES.index("valid, unseen")

        def even(at: int, line: int) -> bool:
            return bool(EVEN[0] <= info.width[at, level, line] <= EVEN[1])

        def wide(at: int, line: int) -> bool:
            return bool(info.width_low[at, level, line] > EVEN[1])

        holds = even(early, broken) and even(early, unseen)
        holds = holds and even(middle, unseen) and wide(middle, broken) and wide(late, unseen)
        words = "; ".join(
            f"step {info.steps[at]:,}: towards rule-breaking {info.width[at, level, broken]:.2f}, "
            f"valid {info.width[at, level, unseen]:.2f}"
            for at in (early, middle, late)
        )
        return holds, f"σ = {info.sigmas[level]:g}, {words}"


@RECIPES.register("p1-why-positions")
class Positions(Why):
    """GPT-mini on the same data."""

    claim: ClassVar[str] = "A16"
    paper: ClassVar[str] = "GPT: the last bit of a group falls first; memory splits late positions"
    criterion: ClassVar[str] = (
        "all ends of groups half learned before any position splits; splits from the second quarter on at most"
    )
    preset: ClassVar[str] = "p1-gpt-mini"
    view: ClassVar[str] = "positions"

    def judge(self, info: Any) -> tuple[bool, str]:
        ends = [onset for onset in info.rule_onsets if onset is not None]
        splits = {k: onset for k, onset in enumerate(info.memory_onsets) if onset.seen}
        if not splits or not all(onset.seen for onset in ends):
            return False, "not all ends of groups were learned, or no position split"
        last, first = max(onset.upper for onset in ends), min(onset.upper for onset in splits.values())
        words = (
            f"all {len(ends)} ends of groups learned by step {last:,.0f}; {len(splits)} positions split, the first by "
            f"step {first:,.0f}, the earliest position {min(splits) + 1} of {len(info.memory_onsets)}"
        )
        return last < first and min(splits) >= len(info.memory_onsets) // 4, words
