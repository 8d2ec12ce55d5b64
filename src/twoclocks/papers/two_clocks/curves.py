"""Curves and clocks of runs as the figures of P1 show them, the choice of runs, and the laws through their onsets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, Protocol

import numpy as np

from twoclocks.analysis.groups import grouped
from twoclocks.clocks.law import Law
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks
from twoclocks.core.arrays import Floats
from twoclocks.core.errors import UserError
from twoclocks.evaluation import Invalid, SampleAccuracy, SampleMemorization
from twoclocks.papers.as_printed import printed_clocks, printed_law, stable
from twoclocks.papers.figure import MissingRunsError
from twoclocks.papers.records import Record, Records
from twoclocks.runs.columns import STEP

PAPER_N = 4096  # the number of training samples of P1's baseline
BASE_GROUP = 3  # and its group size
MODELS = {  # P1's names of the networks, in order of size
    **{f"p1-dit-{size.lower()}": f"DiT-{size}" for size in ("nano", "mini", "S", "B")},
    **{f"p1-gpt-{size.lower()}": f"GPT-{size}" for size in ("nano", "mini", "B")},
}
ClockName = Literal["rule", "memory"]


@dataclass(frozen=True)
class RunCurves:
    """What a figure shows of one run; evaluations at step 0 are left out, since steps are drawn on a log axis."""

    preset: str
    group: int
    n: int
    batch: int
    seed: int
    steps: Floats
    accuracy: Floats
    memorization: Floats
    invalid: Floats | None  # samples with a value between symbols; None: not stored, or no such thing (GPT)
    clocks: Clocks  # as P1 reads them
    validity_chance: float
    copy_chance: float
    stop: str  # clocks.stop: what ended the run

    @property
    def model(self) -> str:
        return MODELS.get(self.preset, self.preset)

    @property
    def passes(self) -> Floats:
        """How often each training sample was seen: steps·batch/N."""
        return np.asarray(self.steps * self.batch / self.n)

    def onset(self, clock: ClockName) -> Onset:
        return self.clocks.rule if clock == "rule" else self.clocks.memory


def run_curves(record: Record) -> RunCurves:
    """The curves of a run, and its clocks as P1 reads them."""
    settings, columns = record.run.settings, record.run.metrics()
    after = columns[STEP] > 0
    invalid = columns.get(Invalid.column(max(settings.evaluation.quantization)))
    between = invalid is not None and record.preset.startswith("p1-dit")  # tokens have no values between them
    return RunCurves(
        preset=record.preset,
        group=record.value("rule.group"),
        n=record.n,
        batch=settings.training.batch,
        seed=record.seed,
        steps=columns[STEP][after],
        accuracy=columns[SampleAccuracy.name][after],
        memorization=columns[SampleMemorization.name][after],
        invalid=invalid[after] if invalid is not None and between else None,
        clocks=printed_clocks(record),
        validity_chance=settings.rule.chance(),
        copy_chance=record.run.copy_chance,
        stop=settings.clocks.stop,
    )


def plain_records(records: Records, *presets: str) -> Records:
    """Parity runs of these presets that change nothing but group size, N, seeds and length; none that diverged."""
    found = [one for preset in presets for one in stable(records.baseline(preset, rule__name="parity"))]
    return Records(found, records.scale)


def plain_curves(records: Records, *presets: str) -> tuple[RunCurves, ...]:
    """The curves of plain runs, in order of model, group size, N and seed."""
    found = [run_curves(one) for one in plain_records(records, *presets)]
    order = list(MODELS)
    return tuple(sorted(found, key=lambda one: (order.index(one.preset), one.group, one.n, one.seed)))


def some_curves(records: Records, *presets: str, clock: ClockName = "rule") -> tuple[RunCurves, ...]:
    """The same, of runs that were made to show a clock; MissingRunsError where there is none."""
    found = tuple(clock_runs(plain_curves(records, *presets), clock))
    if not found:
        names = ", ".join(MODELS[preset] for preset in presets)
        beyond = " that goes beyond τ_rule" if clock == "memory" else ""
        raise MissingRunsError(
            f"runs: there is none of {names} on parity with the preset's settings{beyond}; make the runs first"
        )
    return found


def clock_runs(runs: Iterable[RunCurves], clock: ClockName) -> list[RunCurves]:
    """Runs that were made to show a clock: one that ends at τ_rule says nothing about τ_mem."""
    return [one for one in runs if clock == "rule" or one.stop != "rule"]


def shown_size(runs: Sequence[RunCurves]) -> int:
    """The N at which most combinations of model and group size were run; of several the paper's, else the largest."""
    made = grouped(clock_runs(runs, "memory") or runs, lambda one: one.n)
    return max(made, key=lambda n: (len({(one.preset, one.group) for one in made[n]}), n == PAPER_N, n))


def shown_group(runs: Sequence[RunCurves]) -> int:
    """The paper's group size, where there are runs of it; else the one with the most sizes N, then the smallest."""
    made = grouped(runs, lambda one: one.group)
    return max(made, key=lambda group: (group == BASE_GROUP, len({one.n for one in made[group]}), -group))


def shown_run(runs: Sequence[RunCurves]) -> RunCurves:
    """One run for a panel of both clocks: if possible one that reached τ_mem, at the paper's N, else at the largest."""
    group = shown_group(runs)
    chosen = [one for one in runs if one.group == group]
    return max(chosen, key=lambda one: (one.clocks.memory.seen, one.n == PAPER_N, one.n, len(one.steps), -one.seed))


@dataclass(frozen=True)
class LawLine:
    """The law τ_mem = a·N^α through the onsets of some runs, as a line; or the reason why there is none."""

    label: str
    law: Law | None
    reason: str
    sizes: Floats
    middle: Floats
    seeds: int  # fewest runs at one N

    @property
    def words(self) -> str:
        """Such as ``1.2·N^1.01 (0.97 to 1.05, 18 runs)``."""
        if self.law is None:
            return "no law yet"
        return f"{law_words(self.law.a, self.law.alpha)} ({interval_words(self.law)}, {self.law.points} runs)"


def law_line(label: str, runs: Sequence[RunCurves]) -> LawLine:
    """The law of τ_mem through runs, of one group size or pooled."""
    used = clock_runs(runs, "memory")
    try:
        law = printed_law([one.n for one in used], [one.clocks.memory for one in used])
    except UserError as error:
        return LawLine(label, None, str(error), np.array([]), np.array([]), 0)
    sizes = np.geomspace(law.sizes[0] / 1.3, law.sizes[-1] * 1.3, 40)
    seeds = min(len(same) for same in grouped(used, lambda one: one.n).values())
    return LawLine(label, law, "", sizes, np.array([law.predict(n) for n in sizes]), seeds)


def law_words(a: float, alpha: float) -> str:
    return f"{a:.3g}·N^{alpha:.2f}"


def interval_words(law: Law) -> str:
    """The 95% interval of the exponent."""
    return " to ".join(f"{end:.2f}" if math.isfinite(end) else "?" for end in law.alpha_ci)


def middle_onset(runs: Sequence[RunCurves], clock: ClockName) -> float | None:
    """Median onset, where a run without one is later than all others; None if the median is among those."""
    by_copying = [clock == "rule" and one.clocks.learned_by_memory for one in runs]
    onsets = [None if copied else one.onset(clock).estimate for one, copied in zip(runs, by_copying, strict=True)]
    found = median([math.inf if onset is None else onset for onset in onsets]) if onsets else math.inf
    return found if math.isfinite(found) else None


class Placed(Protocol):
    """A run that has its place in a figure by network, group size and N."""

    @property
    def preset(self) -> str: ...
    @property
    def group(self) -> int: ...
    @property
    def n(self) -> int: ...


def seeds_words(runs: Sequence[Placed]) -> str:
    """Such as ``3 seeds``, or ``1 to 3 seeds`` where group sizes and N have different numbers of them."""
    counts = [len(same) for same in grouped(runs, lambda one: (one.preset, one.group, one.n)).values()]
    low, high = min(counts), max(counts)
    return f"{low} seed{'s' if low > 1 else ''}" if low == high else f"{low} to {high} seeds"


def numbers_words(values: Iterable[int]) -> str:
    """Numbers in order, such as ``512, 1,024``."""
    return ", ".join(f"{value:,}" for value in sorted(set(values)))
