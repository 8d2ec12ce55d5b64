"""What the loss spectrum says: losses between the floors of the oracles, gaps, loss clocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.onset import Onset
from twoclocks.dissection.view import Floats, Info, order_words, plain, when

ALIKE = 1e-3  # mean squared distance below which two oracles say the same
WORTH = 1e-3  # a difference of oracles below this part of the loss is too small to be divided by


@dataclass(frozen=True)
class SpectrumInfo(Info):
    sigmas: Floats
    splits: tuple[str, ...]
    oracles: tuple[str, ...]  # cube, rule (where its oracle is known), memory
    loss: Floats  # (steps, splits, σ)
    error: Floats  # standard errors of the same
    gap: Floats  # (steps, σ): held-out minus training; NaN where the training set is all that is valid
    gap_error: Floats
    ideal: Floats  # (oracles, splits, σ): the loss of each oracle on the same noisy rows
    floor: Floats  # (oracles, σ): the exact loss of each oracle on what it is ideal for
    between: Floats  # (oracles, oracles, splits, σ): mean squared distances of the oracles to each other
    distance: Floats  # (steps, oracles, splits, σ): mean squared distance of the learned denoiser to each oracle
    band: tuple[float, float]  # the critical σ
    rule_clock: Onset | None  # when the cube's loss departs from the training set's
    memory_clock: Onset | None  # when the held-out loss departs from the training set's
    first_split: tuple[float, Onset] | None  # the σ at which held-out and training loss split first, and when

    def of(self, split: str) -> Floats:
        return np.asarray(self.loss[:, self.splits.index(split)])

    def ideal_of(self, oracle: str, split: str) -> Floats:
        return np.asarray(self.ideal[self.oracles.index(oracle), self.splits.index(split)])

    @property
    def in_band(self) -> npt.NDArray[np.bool_]:
        return (self.sigmas >= self.band[0]) & (self.sigmas <= self.band[1])

    @property
    def rule_learned(self) -> Floats | None:
        """(steps, σ): 0 for a model of the cube, 1 for one of the rule, on valid samples it has not seen."""
        if "rule" not in self.oracles or "held_out" not in self.splits:
            return None
        return share(self.of("held_out"), self.ideal_of("cube", "held_out"), self.ideal_of("rule", "held_out"))

    @property
    def memory_learned(self) -> Floats | None:
        """(steps, σ): 0 for a model of the rule, 1 for one of the training set, on the training set."""
        if "rule" not in self.oracles:
            return None
        return share(self.of("train"), self.ideal_of("rule", "train"), self.ideal_of("memory", "train"))

    @property
    def nearest(self) -> npt.NDArray[np.intp]:
        """(steps, σ): the oracle that is nearest on noisy training samples; −1: the next one says the same."""
        split = self.splits.index("train")
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
            if here is not None and here.estimate and there.estimate
        }

    def peak(self) -> tuple[float, float, int]:
        """The largest gap between held-out and training loss: σ, size, step."""
        at, level = np.unravel_index(np.nanargmax(self.gap), self.gap.shape)
        return float(self.sigmas[level]), float(self.gap[at, level]), int(self.steps[at])

    def sentences(self) -> list[str]:
        said = [learned_words(self)] if "rule" in self.oracles and "held_out" in self.splits else []
        if "rule" not in self.oracles:
            said.append("The exact oracle of this rule is not known, so there is no floor of the rule to compare with.")
        if np.isfinite(self.gap).any():
            sigma, size, step = self.peak()
            inside = "inside" if self.band[0] <= sigma <= self.band[1] else "outside"
            said.append(
                f"Held-out and training loss are furthest apart at σ = {sigma:.2g} ({size:.3f}, step {step:,}), "
                f"{inside} the critical band {self.band[0]:g} to {self.band[1]:g}."
            )
        else:
            said.append("Every valid sample is in the training set: there is no held-out loss.")
        if self.first_split is not None:
            said.append(f"They split first at σ = {self.first_split[0]:.2g}, {when(self.first_split[1])}.")
        rule, memory = (self.clocks.rule, self.clocks.memory) if self.clocks is not None else (None, None)
        for clock, there, name, words in (
            (self.rule_clock, rule, "τ_rule", "In the band the cube's loss departs from the training loss"),
            (self.memory_clock, memory, "τ_mem", "In the band the held-out loss departs from the training loss"),
        ):
            if clock is not None and clock.seen:
                said.append(f"{words} {when(clock)}{order_words(clock, there, name)}.")
            elif clock is not None:
                said.append(f"{words}: {when(clock)}.")
        return said

    def numbers(self) -> dict[str, Any]:
        rule, memory = self.rule_learned, self.memory_learned
        return {
            "sigmas": self.sigmas.tolist(),
            "loss": {name: self.of(name).tolist() for name in self.splits},
            "floor": {name: self.floor[k].tolist() for k, name in enumerate(self.oracles)},
            "gap_peak": dict(zip(("sigma", "gap", "step"), self.peak(), strict=True))
            if np.isfinite(self.gap).any()
            else None,
            "rule_learned_in_band": None if rule is None else plain(middle(rule, self.in_band)),
            "memory_learned_in_band": None if memory is None else plain(middle(memory, self.in_band)),
            "rule_clock": None if self.rule_clock is None else self.rule_clock.as_json(),
            "memory_clock": None if self.memory_clock is None else self.memory_clock.as_json(),
            "first_split": None
            if self.first_split is None
            else {"sigma": self.first_split[0], **self.first_split[1].as_json()},
            "leads": self.leads(),
        }


def share(loss: Floats, start: Floats, end: Floats) -> Floats:
    """How far a loss has come from ``start`` to ``end``; NaN where the two are alike."""
    worth = start - end
    found = np.full(loss.shape, np.nan)
    np.divide(start - loss, worth, out=found, where=worth > WORTH * start)
    return found


def middle(values: Floats, chosen: npt.NDArray[np.bool_]) -> Floats:
    """Median over the chosen σ, NaN left out."""
    kept = values[:, chosen]
    known = np.isfinite(kept).any(axis=1)
    found = np.full(len(kept), np.nan)
    found[known] = np.nanmedian(kept[known], axis=1)
    return found


def learned_words(info: SpectrumInfo) -> str:
    rule, memory = info.rule_learned, info.memory_learned
    assert rule is not None and memory is not None
    of_rule, of_memory = middle(rule, info.in_band), middle(memory, info.in_band)
    best = int(np.nanargmax(of_rule)) if np.isfinite(of_rule).any() else 0
    return (
        "Of what the rule is worth on unseen samples in the critical band, the model has learned "
        f"{of_rule[best]:.0%} at step {info.steps[best]:,} and {of_rule[-1]:.0%} at the end (0%: a perfect model of "
        "the cube, 100%: of the rule, below 0%: worse than the cube); of what memory is worth on training samples "
        f"{of_memory[best]:.0%} and {of_memory[-1]:.0%}."
    )
