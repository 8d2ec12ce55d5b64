"""What the loss spectrum says: losses between the floors of the oracles, gaps, loss clocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.onset import Onset
from twoclocks.core.arrays import Floats
from twoclocks.dissection.view import NO_ORACLE, Info, critical, order_words, when

SPLITS = ("train", "held_out", "cube")
ALIKE = 1e-3  # mean squared distance below which two oracles say the same
WORTH = 1e-3  # a difference of oracles below this part of the loss is too small to be divided by


@dataclass(frozen=True)
class SpectrumInfo(Info):
    sigmas: Floats
    oracles: tuple[str, ...]  # cube, rule (where its oracle is known), memory
    loss: Floats  # (steps, SPLITS, σ)
    error: Floats  # standard errors of the same
    gap: Floats  # (steps, σ): held-out minus training
    gap_error: Floats
    ideal: Floats  # (oracles, splits, σ): the loss of each oracle on the same noisy rows
    floor: Floats  # (oracles, σ): the exact loss of each oracle on what it is ideal for
    between: Floats  # (oracles, oracles, splits, σ): mean squared distances of the oracles to each other
    distance: Floats  # (steps, oracles, splits, σ): mean squared distance of the learned denoiser to each oracle
    band: tuple[float, float]  # the critical σ
    unit: float  # of σ: half the distance of neighbouring symbols
    rule_clock: Onset  # when the cube's loss departs from that on valid, unseen samples
    memory_clock: Onset  # when the held-out loss departs from the training set's
    first_split: tuple[float, Onset] | None  # the σ at which held-out and training loss split first, and when

    def of(self, split: str) -> Floats:
        return np.asarray(self.loss[:, SPLITS.index(split)])

    def ideal_of(self, oracle: str, split: str) -> Floats:
        return np.asarray(self.ideal[self.oracles.index(oracle), SPLITS.index(split)])

    @property
    def in_band(self) -> npt.NDArray[np.bool_]:
        return (self.sigmas >= self.band[0]) & (self.sigmas <= self.band[1])

    @property
    def level(self) -> int:
        """The σ in the middle of the critical band."""
        return critical(self.sigmas, self.unit)

    @property
    def rule_learned(self) -> Floats | None:
        """(steps,): in the band, 0 for a model of the cube, 1 for one of the rule, on valid samples it has not seen."""
        return self.learned("held_out", "cube", "rule")

    @property
    def memory_learned(self) -> Floats | None:
        """(steps,): over the band, 0 for a model of the rule, 1 for one of the training set, on the training set."""
        return self.learned("train", "rule", "memory")

    def learned(self, split: str, start: str, end: str) -> Floats | None:
        """How far the loss, summed over the band, has come from one oracle's to another's; None: they are alike."""
        if not {start, end} <= set(self.oracles):
            return None
        first, last = (self.ideal_of(name, split)[self.in_band].sum() for name in (start, end))
        if first - last < WORTH * first:
            return None
        found: Floats = (first - self.of(split)[:, self.in_band].sum(axis=1)) / (first - last)
        return found

    @property
    def nearest(self) -> npt.NDArray[np.intp]:
        """(steps, σ): the oracle that is nearest on noisy training samples; −1: the next one says the same."""
        split = SPLITS.index("train")
        first, second = np.argsort(self.distance[:, :, split], axis=1)[:, :2].swapaxes(0, 1)  # (steps, σ) each
        apart = self.between[first, second, split, np.arange(len(self.sigmas))]
        return np.where(apart > ALIKE, first, -1)

    def leads(self) -> dict[str, float]:
        """How many times earlier each loss clock strikes than its sample clock, where both are known."""
        if self.clocks is None:
            return {}
        pairs = {"rule": (self.rule_clock, self.clocks.rule), "memory": (self.memory_clock, self.clocks.memory)}
        return {
            name: there.estimate / here.estimate
            for name, (here, there) in pairs.items()
            if here.estimate and there.estimate
        }

    def peak(self) -> tuple[float, float, int] | None:
        """The largest gap between held-out and training loss that is no accident: σ, size, step."""
        sure = np.where(self.gap > 4 * self.gap_error, self.gap, -np.inf)
        at, level = np.unravel_index(sure.argmax(), sure.shape)
        if sure[at, level] < WORTH:
            return None
        return float(self.sigmas[level]), float(sure[at, level]), int(self.steps[at])

    def sentences(self) -> list[str]:
        said = [NO_ORACLE] if "rule" not in self.oracles else learned_words(self)
        if (peak := self.peak()) is not None:
            sigma, size, step = peak
            inside = "inside" if self.band[0] <= sigma <= self.band[1] else "outside"
            said.append(
                f"Held-out and training loss are furthest apart at σ = {sigma:.2g} ({size:.3f}, step {step:,}), "
                f"{inside} the critical band {self.band[0]:.2g} to {self.band[1]:.2g}."
            )
        else:
            said.append("Held-out and training loss are nowhere surely apart.")
        if self.first_split is not None:
            said.append(
                f"Of single noise scales, σ = {self.first_split[0]:.2g} splits first, {when(self.first_split[1])}."
            )
        rule, memory = (self.clocks.rule, self.clocks.memory) if self.clocks is not None else (None, None)
        for clock, there, name, words in (
            (self.rule_clock, rule, "τ_rule", "In the band the cube's loss departs from the held-out loss"),
            (self.memory_clock, memory, "τ_mem", "In the band the held-out loss departs from the training loss"),
        ):
            order = order_words(clock, there, name)
            said.append(f"{words} {when(clock)}{order}." if clock.seen else f"{words}: {when(clock)}.")
        return said

    def numbers(self) -> dict[str, Any]:
        rule, memory, peak = self.rule_learned, self.memory_learned, self.peak()
        first = self.first_split
        return {
            "sigmas": self.sigmas.tolist(),
            "loss": {name: self.of(name).tolist() for name in SPLITS},
            "floor": {name: self.floor[k].tolist() for k, name in enumerate(self.oracles)},
            "gap_peak": None if peak is None else dict(zip(("sigma", "gap", "step"), peak, strict=True)),
            "rule_learned_in_band": None if rule is None else rule.tolist(),
            "memory_learned_in_band": None if memory is None else memory.tolist(),
            "rule_clock": self.rule_clock.as_json(),
            "memory_clock": self.memory_clock.as_json(),
            "first_split": None if first is None else {"sigma": first[0], **first[1].as_json()},
            "leads": self.leads(),
        }


def learned_words(info: SpectrumInfo) -> list[str]:
    rule, memory = info.rule_learned, info.memory_learned
    said = []
    if rule is not None:
        best = int(rule.argmax())
        end = f" and {rule[-1]:.0%} at step {info.steps[-1]:,}" if best < len(rule) - 1 else ""
        said.append(
            "Of what the rule is worth on unseen samples in the critical band, the model has learned "
            f"{rule[best]:.0%} at step {info.steps[best]:,}{end} "
            "(0%: a perfect model of the cube, 100%: of the rule, below 0%: worse than the cube)."
        )
    if memory is not None:
        best = int(memory.argmax())
        said.append(
            "Of what memory is worth on training samples beyond the rule, it has learned "
            f"{max(memory[best], 0):.0%} at step {info.steps[best]:,} (100%: a perfect memory)."
        )
    return said
