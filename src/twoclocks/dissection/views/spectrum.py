"""View ``spectrum``: the denoising loss by noise scale between exact floors: how much of rule and memory is learned.

At every σ the loss on three splits (training set, valid and unseen, cube) uses the same noise at every step, and the
exact oracles see the same noisy rows. Real images have neither rule nor cube: there the training set's oracle alone
says how much of memory is learned. The difference between the losses of the cube's and the rule's oracle is what
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
import torch
from torch import Tensor

from twoclocks.clocks.window import NO_RULE
from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.dissection.loss_clocks import earliest_split, level_clocks, loss_clock
from twoclocks.dissection.spectrum_info import SpectrumInfo
from twoclocks.dissection.subject import SPLITS, Reads, Subject
from twoclocks.dissection.view import CRITICAL, VIEWS, Arrays, Passes, Probe, View, ViewError, denoising_refusal
from twoclocks.objectives.edm import like
from twoclocks.runs.settings import RunSettings


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
        return Passes(1, (2 if settings.rule.is_image else len(SPLITS)) * self.levels * self.rows_of(settings))

    def rows_of(self, settings: RunSettings) -> int:
        """Rows per split. Images are not repeated: some are harder than others, so repeats are not independent."""
        if not settings.rule.is_image:
            return self.rows
        return min(self.rows, settings.data.n, max(2, settings.rule.support() - settings.data.n))

    def prepare(self, subject: Subject) -> Probe:
        return SpectrumProbe(self, subject)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> SpectrumInfo:
        at, sigmas, clocks = np.array(steps, dtype=np.int64), self.sigmas(subject.unit), subject.settings.clocks
        rows = measurements["loss"].astype(np.float64)  # (steps, splits, σ, rows)
        splits = SPLITS[: rows.shape[1]]
        train, unseen = (rows[:, splits.index(name)] for name in ("train", "held_out"))
        band = (self.band[0] * subject.unit, self.band[1] * subject.unit)
        inside = (sigmas >= band[0]) & (sigmas <= band[1])
        gap, error = paired(unseen, train)
        by_level = level_clocks(at, unseen, train, self.departure, clocks)
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
            rule_clock=loss_clock(at, rows[:, splits.index("cube")], unseen, inside, self.departure, clocks)
            if "cube" in splits
            else NO_RULE,
            memory_clock=loss_clock(at, unseen, train, inside, self.departure, clocks),
            first_split=earliest_split(sigmas, by_level),
            level_clocks=by_level,
            splits=splits,
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
        rows = view.rows_of(subject.settings)
        found = subject.splits(rows)
        if "held_out" not in found:
            raise ViewError("the training set holds every sample, so there is no held-out loss; use a smaller data.n")
        self.splits = tuple(name for name in SPLITS if name in found)
        shape = subject.encoding.shape(subject.rule)
        noise = torch.randn((rows, *shape), generator=subject.stream("spectrum noise")).to(subject.device)
        sigmas = torch.tensor(view.sigmas(subject.unit), dtype=torch.float32, device=subject.device)
        self.sizes = (len(self.splits), view.levels, rows)
        clean = torch.stack([found[name] for name in self.splits])[:, None].expand(*self.sizes, *shape)
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
            floors.append(variance[self.splits.index(ideal_for[name])].mean(dim=1))
        between = [[self.squared(a, b).mean(dim=2) for b in self.ideals.values()] for a in self.ideals.values()]
        found = {"ideal": torch.stack(ideal), "floor": torch.stack(floors)}
        found["between"] = torch.stack([torch.stack(row) for row in between])
        return {name: values.double().cpu().numpy() for name, values in found.items()}

    def measure(self, step: int) -> Arrays:
        denoised = self.subject.denoise(step, self.noisy, self.sigma)
        distance = [self.squared(denoised, ideal).mean(dim=2) for ideal in self.ideals.values()]
        loss = self.squared(denoised, self.clean)
        return {"loss": loss.float().cpu().numpy(), "distance": torch.stack(distance).double().cpu().numpy()}
