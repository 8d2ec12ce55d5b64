"""Claim A14: losses of the splits differ before samples do, at intermediate σ (P1 §4.2, C.4.2, Figs. 3, 14 and 15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks
from twoclocks.dissection.spectrum_info import SpectrumInfo
from twoclocks.papers.claim import CLAIMS, Answer
from twoclocks.papers.intervals import interval_of, is_earlier, range_of
from twoclocks.papers.records import Record
from twoclocks.papers.two_clocks.run_by_run import Finding, RunByRun
from twoclocks.papers.two_clocks.runs import DIT
from twoclocks.papers.views import view_of

DEPARTURES = (0.02, 0.05, 0.1, 0.2)  # P1 does not say how large a difference counts as a split


@dataclass(frozen=True)
class LossClocks(Finding):
    """The onsets of a run: of its samples, and of its losses in the critical band for every departure."""

    samples: Clocks
    rule: dict[float, Onset]  # the loss on the cube exceeds that on valid, unseen samples
    memory: dict[float, Onset]  # the loss on valid, unseen samples exceeds that on training samples

    def answers(self) -> dict[str, Answer]:
        """Whether each loss clock is earlier than its sample clock, for every departure."""
        found = {f"rule, {share:.0%}": is_earlier(one, self.samples.rule) for share, one in self.rule.items()}
        return found | {
            f"memory, {share:.0%}": is_earlier(one, self.samples.memory) for share, one in self.memory.items()
        }

    def words(self) -> str:
        def listed(onsets: dict[float, Onset]) -> str:
            return f"{range_of(map(interval_of, onsets.values()))} ({min(onsets):.0%}–{max(onsets):.0%})"

        return (
            f"rule: losses {listed(self.rule)}, samples {self.samples.rule}; memory: losses {listed(self.memory)}, "
            f"samples {self.samples.memory}"
        )


@CLAIMS.register("A14")
class LossesFirst(RunByRun):
    """DiT-mini at G = 3: denoising losses on training, valid and unseen, and cube samples."""

    id: ClassVar[str] = "A14"
    title: ClassVar[str] = "Losses split before samples do, at intermediate noise scales"
    paper: ClassVar[str] = "the losses split before τ_rule and τ_mem as read from samples, at σ from 0.2 to 2"
    criterion: ClassVar[str] = (
        "in the band σ 0.2–2 the cube's loss departs from the held-out loss before τ_rule, and the held-out loss from "
        "the training loss before τ_mem, for departures of 2%, 5%, 10% and 20% alike (95% intervals apart)"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig3", "fig13", "fig14", "fig15")
    grids: ClassVar[tuple[str, ...]] = ("dissection",)

    preset: ClassVar[str] = DIT
    needed: ClassVar[str] = "losses by noise scale, beyond both clocks"

    def finding(self, record: Record) -> LossClocks | None:
        return loss_clocks(record)


def loss_clocks(record: Record) -> LossClocks | None:
    """Both loss clocks for every departure; None where losses were not measured, or a sample clock was not reached."""
    rule, memory, samples = {}, {}, None
    for share in DEPARTURES:
        info = view_of(record, "spectrum", departure=share)
        if not isinstance(info, SpectrumInfo) or info.clocks is None:
            return None
        rule[share], memory[share], samples = info.rule_clock, info.memory_clock, info.clocks
    both = samples is not None and samples.rule.seen and samples.memory.seen
    return LossClocks(samples, rule, memory) if both and samples is not None else None
