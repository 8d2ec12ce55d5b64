"""View ``spectrum``: the denoising loss by noise scale between exact floors: how much of rule and memory is learned.

At every σ the loss on three splits (training set, valid and unseen, cube) uses the same noise at every step, and the
exact oracles see the same noisy rows. The difference between the losses of the cube's and the rule's oracle is what
knowing the rule is worth at that σ; the difference between those of the rule's and the training set's oracle is what
memorizing is worth (P1 C.4.2, with floors).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from twoclocks.clocks.onset import Onset
from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.dissection.loss_clocks import earliest_split, loss_clock
from twoclocks.dissection.subject import SPLITS, Reads, Subject
from twoclocks.dissection.view import (
    CRITICAL,
    NO_ORACLE,
    VIEWS,
    Arrays,
    Info,
    Passes,
    Probe,
    View,
    confidence_words,
    critical,
    denoising_refusal,
    order_words,
    when,
)
from twoclocks.objectives.edm import like
from twoclocks.runs.settings import RunSettings

ALIKE = 1e-3  # mean squared distance below which two oracles count as equal
WORTH = 1e-3  # a difference of oracles below this fraction of the loss is too small to be divided by
ERRORS = 4  # standard errors beyond which a gap between losses is taken for real


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
    unit: float  # half the distance of neighbouring symbols, in which σ is given
    rule_clock: Onset  # when the loss on the cube exceeds that on valid, unseen samples
    memory_clock: Onset  # when the held-out loss exceeds the training loss
    first_split: tuple[float, Onset] | None  # the σ at which held-out and training loss split first, and when
    confidence: float = 0.95  # of the onsets; 0: no bounds

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
        """(steps,): over the band on valid, unseen samples: 0 for a model of the cube, 1 for one of the rule."""
        return self.learned("held_out", "cube", "rule")

    @property
    def memory_learned(self) -> Floats | None:
        """(steps,): over the band on training samples: 0 for a model of the rule, 1 for one of the training set."""
        return self.learned("train", "rule", "memory")

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
        split = SPLITS.index("train")
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
        found = [NO_ORACLE] if "rule" not in self.oracles else learned_words(self)
        if (peak := self.peak()) is not None:
            sigma, size, step = peak
            inside = "inside" if self.band[0] <= sigma <= self.band[1] else "outside"
            found.append(
                f"Held-out and training loss differ most at σ = {sigma:.2g} (by {size:.3f} at step {step:,}), "
                f"{inside} the critical band {self.band[0]:.2g} to {self.band[1]:.2g}."
            )
        else:
            found.append(f"Held-out and training loss do not differ by more than {ERRORS} standard errors at any σ.")
        if self.first_split is not None:
            sigma, first = self.first_split
            found.append(f"The first noise scale at which these losses split is σ = {sigma:.2g}, {when(first)}.")
        rule, memory = (self.clocks.rule, self.clocks.memory) if self.clocks is not None else (None, None)
        sure = confidence_words(self.confidence)
        for clock, there, name, words in (
            (self.rule_clock, rule, "τ_rule", "In the band the loss on the cube exceeds the held-out loss"),
            (self.memory_clock, memory, "τ_mem", "In the band the held-out loss exceeds the training loss"),
        ):
            order = order_words(clock, there, name)
            found.append(f"{words}{sure} {when(clock)}{order}." if clock.seen else f"{words}{sure}: {when(clock)}.")
        return found

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


@VIEWS.register("spectrum")
@dataclass(frozen=True, kw_only=True)
class Spectrum(View):
    """Denoising loss by noise scale, with exact floors."""

    reads: ClassVar[Reads] = "weights"
    interprets: ClassVar[tuple[str, ...]] = ("band", "departure")
    levels: int = setting(50, "noise scales, log-spaced", at_least=2, at_most=1000)
    sigma_min: float = setting(0.02, "smallest noise scale", above=0)
    sigma_max: float = setting(20.0, "largest noise scale", above=0)
    rows: int = setting(48, "rows of each split", at_least=2, at_most=10**6)
    band: tuple[float, ...] = setting(CRITICAL, "smallest and largest critical noise scale", above=0)
    departure: float = setting(0.05, "relative difference of losses that counts as a split", above=0)

    def check(self) -> None:
        if self.sigma_min >= self.sigma_max:
            raise SettingError("sigma_min", self.sigma_min, f"use a number below sigma_max = {self.sigma_max:g}")
        if len(self.band) != 2 or not self.sigma_min <= self.band[0] < self.band[1] <= self.sigma_max:
            fix = f"give two numbers, the smaller first, from {self.sigma_min:g} to {self.sigma_max:g}"
            raise SettingError("band", list(self.band), fix)
        scales = self.sigmas(unit=1.0)
        if not ((scales >= self.band[0]) & (scales <= self.band[1])).any():
            raise SettingError("levels", self.levels, f"none of them lies in the band {list(self.band)}; use more")

    def refusal(self, settings: RunSettings) -> str | None:
        return denoising_refusal(settings, self.sigma_min, self.sigma_max)

    def sigmas(self, unit: float) -> Floats:
        return unit * np.geomspace(self.sigma_min, self.sigma_max, self.levels)

    def passes(self, settings: RunSettings) -> Passes:
        return Passes(1, len(SPLITS) * self.levels * self.rows)

    def prepare(self, subject: Subject) -> Probe:
        return SpectrumProbe(self, subject)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> SpectrumInfo:
        at, sigmas, clocks = np.array(steps, dtype=np.int64), self.sigmas(subject.unit), subject.settings.clocks
        rows = measurements["loss"].astype(np.float64)  # (steps, splits, σ, rows)
        train, unseen, cube = (rows[:, SPLITS.index(name)] for name in ("train", "held_out", "cube"))
        band = (self.band[0] * subject.unit, self.band[1] * subject.unit)
        inside = (sigmas >= band[0]) & (sigmas <= band[1])
        gap, error = paired(unseen, train)
        return SpectrumInfo(
            steps=at,
            sigmas=sigmas,
            oracles=tuple(subject.oracles),
            loss=rows.mean(axis=3),
            error=rows.std(axis=3, ddof=1) / math.sqrt(rows.shape[3]),
            gap=gap,
            gap_error=error,
            ideal=constants["ideal"],
            floor=constants["floor"],
            between=constants["between"],
            distance=measurements["distance"],
            band=band,
            unit=subject.unit,
            rule_clock=loss_clock(at, cube, unseen, inside, self.departure, clocks),
            memory_clock=loss_clock(at, unseen, train, inside, self.departure, clocks),
            first_split=earliest_split(at, sigmas, unseen, train, self.departure, clocks),
            confidence=clocks.confidence,
            clocks=subject.clocks,
        )


def paired(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Mean difference over rows with the same noise, and its standard error: (…) from (…, rows)."""
    difference = left - right
    return difference.mean(axis=-1), difference.std(axis=-1, ddof=1) / math.sqrt(difference.shape[-1])


class SpectrumProbe(Probe):
    """Holds all noisy rows, (splits·σ·rows, *shape), in that order."""

    def __init__(self, view: Spectrum, subject: Subject) -> None:
        self.view, self.subject = view, subject
        found = subject.splits(view.rows)
        shape = subject.encoding.shape(subject.rule)
        noise = torch.randn((view.rows, *shape), generator=subject.stream("spectrum noise")).to(subject.device)
        sigmas = torch.tensor(view.sigmas(subject.unit), dtype=torch.float32, device=subject.device)
        self.sizes = (len(SPLITS), view.levels, view.rows)
        clean = torch.stack([found[name] for name in SPLITS])[:, None].expand(*self.sizes, *shape)
        self.sigma = sigmas[None, :, None].expand(self.sizes).reshape(-1)
        self.clean = clean.reshape(-1, *shape)
        noise = noise.expand(*self.sizes, *shape).reshape(-1, *shape)
        codes = subject.encoding.codes(subject.rule.symbols)
        if codes is not None and codes.flatten().tolist() == [-1, 1]:
            # Bits at ±1 get the same noise relative to each bit: then every array of bits is equally hard for the ideal
            # denoiser of the cube, every valid one for that of parity, and differences between splits are the model's.
            noise = noise * self.clean
        self.noisy = self.clean + like(self.sigma, self.clean) * noise

    @cached_property
    def ideals(self) -> dict[str, Tensor]:
        """The output of each oracle for the noisy rows."""
        return self.subject.ideals(self.noisy, self.sigma)

    def squared(self, left: Tensor, right: Tensor) -> Tensor:
        """Mean squared difference per row, (splits, σ, rows)."""
        return (left - right).flatten(1).square().mean(dim=1).reshape(self.sizes)

    def constants(self) -> Arrays:
        ideal = [self.squared(denoised, self.clean).mean(dim=2) for denoised in self.ideals.values()]
        ideal_for = {"cube": "cube", "rule": "held_out", "memory": "train"}
        floors = []
        for name, oracle in self.subject.oracles.items():
            variance = oracle.variance(self.noisy, self.sigma).reshape(self.sizes)
            floors.append(variance[SPLITS.index(ideal_for[name])].mean(dim=1))
        between = [[self.squared(a, b).mean(dim=2) for b in self.ideals.values()] for a in self.ideals.values()]
        found = {"ideal": torch.stack(ideal), "floor": torch.stack(floors)}
        found["between"] = torch.stack([torch.stack(row) for row in between])
        return {name: values.double().cpu().numpy() for name, values in found.items()}

    def measure(self, step: int) -> Arrays:
        denoised = self.subject.denoise(step, self.noisy, self.sigma)
        distance = [self.squared(denoised, ideal).mean(dim=2) for ideal in self.ideals.values()]
        loss = self.squared(denoised, self.clean)
        return {"loss": loss.float().cpu().numpy(), "distance": torch.stack(distance).double().cpu().numpy()}
