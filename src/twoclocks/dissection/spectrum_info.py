"""What ``spectrum`` found: losses by noise scale, how much of rule and memory they show, and when they split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.onset import Onset
from twoclocks.core.arrays import Floats
from twoclocks.dissection.subject import SPLITS
from twoclocks.dissection.view import (
    NO_ORACLE,
    Info,
    confidence_words,
    critical,
    order_words,
    plain,
    when,
    without_rule,
)

ALIKE = 1e-3  # mean squared distance below which two oracles count as equal
WORTH = 1e-3  # a difference of oracles below this fraction of the loss is too small to be divided by
ERRORS = 4  # standard errors beyond which a gap between losses is taken for real


@dataclass(frozen=True)
class SpectrumInfo(Info):
    sigmas: Floats
    oracles: tuple[str, ...]  # cube, rule (where its oracle is known), memory; of images memory alone
    loss: Floats  # (steps, splits, σ)
    error: Floats  # standard errors of the same
    gap: Floats  # (steps, σ): held-out minus training
    gap_error: Floats
    ideal: Floats  # (oracles, splits, σ): the loss of each oracle on the same noisy rows
    floor: Floats  # (oracles, σ): the exact loss of each oracle on what it is ideal for
    between: Floats  # (oracles, oracles, splits, σ): mean squared distances of the oracles to each other
    distance: Floats  # (steps, oracles, splits, σ): mean squared distance of the learned denoiser to each oracle
    band: tuple[float, float]  # the critical σ
    unit: float  # half the distance of neighbouring symbols, in which σ is given
    rule_clock: Onset  # when the loss on the cube exceeds that on valid, unseen samples
    memory_clock: Onset  # when the held-out loss exceeds the training loss
    first_split: tuple[float, Onset] | None  # the σ at which held-out and training loss split first, and when
    level_clocks: tuple[Onset, ...]  # at each σ: when the held-out loss exceeds the training loss
    confidence: float = 0.95  # of the onsets; 0: no bounds
    splits: tuple[str, ...] = SPLITS  # images have no cube

    def of(self, split: str) -> Floats:
        return np.asarray(self.loss[:, self.splits.index(split)])

    def ideal_of(self, oracle: str, split: str) -> Floats:
        return np.asarray(self.ideal[self.oracles.index(oracle), self.splits.index(split)])

    @property
    def has_rule(self) -> bool:
        return not without_rule(self.oracles)

    @property
    def in_band(self) -> npt.NDArray[np.bool_]:
        return (self.sigmas >= self.band[0]) & (self.sigmas <= self.band[1])

    @property
    def level(self) -> int:
        """The σ in the middle of the critical band."""
        return critical(self.sigmas, self.unit)

    @property
    def rule_learned(self) -> Floats | None:
        """(steps,): over the band on valid, unseen samples: 0 for a model of the cube, 1 for one of the rule."""
        return self.learned("held_out", "cube", "rule")

    @property
    def memory_learned(self) -> Floats | None:
        """(steps,): over the band on training samples: 0 for a model of the rule, 1 for one of the training set.

        Of images, whose rule nobody knows: ``memory_share`` of the losses summed over the band.
        """
        if not self.has_rule:
            return self.share_of(*(losses[..., self.in_band].sum(axis=-1) for losses in self.memory_losses()))
        return self.learned("train", "rule", "memory")

    @property
    def memory_share(self) -> Floats:
        """(steps, σ): which part of the way from the held-out loss to that of the training set's ideal is gained.

        0: training images are denoised no better than held-out ones; 1: as the ideal denoiser of the training set does.
        NaN where that ideal is no better than the model is on held-out images.
        """
        return self.share_of(*self.memory_losses())

    def memory_losses(self) -> tuple[Floats, Floats, Floats]:
        """Losses on training and held-out rows (steps, σ), and that of the training set's ideal on the former (σ,)."""
        return self.of("train"), self.of("held_out"), self.ideal_of("memory", "train")

    def share_of(self, train: Floats, held_out: Floats, ideal: Floats) -> Floats:
        worth = held_out - ideal
        enough = worth > WORTH * held_out
        return np.where(enough, (held_out - train) / np.where(enough, worth, 1.0), np.nan)

    def learned(self, split: str, start: str, end: str) -> Floats | None:
        """How far the loss, summed over the band, has moved from one oracle's to another's; None: they are equal."""
        if not {start, end} <= set(self.oracles):
            return None
        first, last = (self.ideal_of(name, split)[self.in_band].sum() for name in (start, end))
        if first - last < WORTH * first:
            return None
        found: Floats = (first - self.of(split)[:, self.in_band].sum(axis=1)) / (first - last)
        return found

    @property
    def nearest(self) -> npt.NDArray[np.intp]:
        """(steps, σ): the oracle that is nearest on noisy training samples; −1: the two nearest are equal."""
        split = self.splits.index("train")
        first, second = np.argsort(self.distance[:, :, split], axis=1)[:, :2].swapaxes(0, 1)  # (steps, σ) each
        apart = self.between[first, second, split, np.arange(len(self.sigmas))]
        return np.where(apart > ALIKE, first, -1)

    def leads(self) -> dict[str, float]:
        """The step of each sample clock divided by that of its loss clock, where both are known."""
        if self.clocks is None:
            return {}
        pairs = {"rule": (self.rule_clock, self.clocks.rule), "memory": (self.memory_clock, self.clocks.memory)}
        return {
            name: there.estimate / here.estimate
            for name, (here, there) in pairs.items()
            if here.estimate and there.estimate
        }

    def peak(self) -> tuple[float, float, int] | None:
        """The largest gap between held-out and training loss beyond ``ERRORS`` standard errors: σ, size, step."""
        gaps = np.where(self.gap > ERRORS * self.gap_error, self.gap, -np.inf)
        at, level = np.unravel_index(gaps.argmax(), gaps.shape)
        if gaps[at, level] < WORTH:
            return None
        return float(self.sigmas[level]), float(gaps[at, level]), int(self.steps[at])

    def sentences(self) -> list[str]:
        found = learned_words(self) if "rule" in self.oracles else [NO_ORACLE] if self.has_rule else share_words(self)
        if (peak := self.peak()) is not None:
            sigma, size, step = peak
            inside = "inside" if self.band[0] <= sigma <= self.band[1] else "outside"
            band = f"the {'critical ' if self.has_rule else ''}band {self.band[0]:.2g} to {self.band[1]:.2g}"
            found.append(
                f"Held-out and training loss differ most at σ = {sigma:.2g} (by {size:.3f} at step {step:,}), "
                f"{inside} {band}."
            )
        else:
            found.append(f"Held-out and training loss do not differ by more than {ERRORS} standard errors at any σ.")
        if self.first_split is not None:
            sigma, first = self.first_split
            found.append(f"The first noise scale at which these losses split is σ = {sigma:.2g}, {when(first)}.")
        rule, memory = (self.clocks.rule, self.clocks.memory) if self.clocks is not None else (None, None)
        sure = confidence_words(self.confidence)
        clocks = (
            (self.rule_clock, rule, "τ_rule", "In the band the loss on the cube exceeds the held-out loss"),
            (self.memory_clock, memory, "τ_mem", "In the band the held-out loss exceeds the training loss"),
        )
        for clock, there, name, words in clocks if self.has_rule else clocks[1:]:
            order = order_words(clock, there, name)
            found.append(f"{words}{sure} {when(clock)}{order}." if clock.seen else f"{words}{sure}: {when(clock)}.")
        return found

    def numbers(self) -> dict[str, Any]:
        rule, memory, peak = self.rule_learned, self.memory_learned, self.peak()
        first = self.first_split
        return {
            "sigmas": self.sigmas.tolist(),
            "loss": {name: self.of(name).tolist() for name in self.splits},
            "floor": {name: self.floor[k].tolist() for k, name in enumerate(self.oracles)},
            "gap_peak": None if peak is None else dict(zip(("sigma", "gap", "step"), peak, strict=True)),
            "rule_learned_in_band": None if rule is None else rule.tolist(),
            "memory_learned_in_band": None if memory is None else plain(memory),
            "rule_clock": self.rule_clock.as_json(),
            "memory_clock": self.memory_clock.as_json(),
            "first_split": None if first is None else {"sigma": first[0], **first[1].as_json()},
            "level_clocks": [one.as_json() for one in self.level_clocks],
            "leads": self.leads(),
            **({} if self.has_rule else {"memory_share": [plain(row) for row in self.memory_share]}),
        }


def learned_words(info: SpectrumInfo) -> list[str]:
    """How much of the rule and of memory was learned at most, one sentence each."""
    rule, memory = info.rule_learned, info.memory_learned
    found = []
    if rule is not None:
        best = int(rule.argmax())
        end = f", and {rule[-1]:.0%} at step {info.steps[-1]:,}" if best < len(rule) - 1 else ""
        found.append(
            f"In the critical band, on unseen samples, the loss is nearest to the rule's floor at step "
            f"{info.steps[best]:,}: {rule[best]:.0%} of the way from the cube's floor{end} "
            "(0%: a perfect model of the cube, 100%: of the rule, below 0%: worse than the cube)."
        )
    if memory is not None:
        best = int(memory.argmax())
        found.append(
            f"On training samples it is nearest to the floor of the training set at step {info.steps[best]:,}: "
            f"{max(memory[best], 0):.0%} of the way from the rule's floor (100%: perfect memorization)."
        )
    return found


def share_words(info: SpectrumInfo) -> list[str]:
    """How much of memory the model has, over the band and at the σ where it has most."""
    whole, share = info.memory_learned, info.memory_share[-1]
    assert whole is not None
    meaning = (
        "0%: training images are denoised no better than held-out ones, 100%: as the ideal denoiser of the training "
        "set does"
    )
    ends = [
        f"{whole[at]:.0%} at step {info.steps[at]:,}" for at in sorted({0, len(whole) - 1}) if np.isfinite(whole[at])
    ]
    found = [f"Share of memory over the band {info.band[0]:.2g} to {info.band[1]:.2g}: {', '.join(ends)} ({meaning})."]
    inside = np.where(info.in_band, share, np.nan)
    if not ends or np.isnan(inside).all():
        return ["Over the band the ideal denoiser of the training set is no better than the model on held-out images."]
    most, least = int(np.nanargmax(inside)), int(np.nanargmin(inside))
    found.append(
        f"At step {info.steps[-1]:,} it is largest at σ = {info.sigmas[most]:.2g} ({share[most]:.0%}) and smallest at "
        f"σ = {info.sigmas[least]:.2g} ({share[least]:.0%})."
    )
    return found
