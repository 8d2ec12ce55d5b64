"""The denoising loss by noise scale, beside what is possible: how much of the rule, and of memory, a model has learned.

At every σ the loss on three splits (training set, valid and unseen, cube) meets the same noises at every step, and the
same noises meet the exact oracles. Between the oracle of the cube and that of the rule lies what the rule is worth at
that σ; between those of the rule and of the training set what memory is worth (P1 C.4.2, with floors).
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

from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.data.encodings import ScalarImage
from twoclocks.dissection.loss_clocks import earliest_split, loss_clock
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.dissection.view import CRITICAL, VIEWS, Arrays, Probe, View, needs_noise_levels
from twoclocks.dissection.views.spectrum_info import SPLITS, SpectrumInfo
from twoclocks.objectives.edm import like
from twoclocks.runs.settings import RunSettings


@VIEWS.register("spectrum")
@dataclass(frozen=True, kw_only=True)
class Spectrum(View):
    """Denoising loss by noise scale, with the exact floors drawn in."""

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
        return needs_noise_levels(settings)

    def sigmas(self, unit: float) -> Floats:
        return unit * np.geomspace(self.sigma_min, self.sigma_max, self.levels)

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
            clocks=subject.clocks,
        )


def paired(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Mean difference over rows that met the same noise, and its standard error: (…) of (…, rows)."""
    difference = left - right
    return difference.mean(axis=-1), difference.std(axis=-1, ddof=1) / math.sqrt(difference.shape[-1])


class SpectrumProbe(Probe):
    """All noisy rows at once, (splits·σ·rows, *shape), in that order."""

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
        if subject.rule.symbols == 2 and isinstance(subject.encoding, ScalarImage):
            # The same noise as seen from each bit: then every array of bits is equally hard for the ideal denoiser of
            # the cube, every valid one for that of parity, and what differs between splits is the model's doing.
            noise = noise * self.clean
        self.noisy = self.clean + like(self.sigma, self.clean) * noise

    @cached_property
    def ideals(self) -> dict[str, Tensor]:
        """What each oracle says of the noisy rows."""
        return self.subject.ideals(self.noisy, self.sigma)

    def squared(self, left: Tensor, right: Tensor) -> Tensor:
        """Mean squared difference of each row, (splits, σ, rows)."""
        return (left - right).flatten(1).square().mean(dim=1).reshape(self.sizes)

    def constants(self) -> Arrays:
        ideal = [self.squared(said, self.clean).mean(dim=2) for said in self.ideals.values()]
        floors = []
        for name, oracle in self.subject.oracles.items():
            place = SPLITS.index(
                {"cube": "cube", "rule": "held_out", "memory": "train"}[name]
            )  # what each is ideal for
            variance = oracle.variance(self.noisy, self.sigma).reshape(self.sizes)
            floors.append(variance[place].mean(dim=1))
        between = [[self.squared(a, b).mean(dim=2) for b in self.ideals.values()] for a in self.ideals.values()]
        found = {"ideal": torch.stack(ideal), "floor": torch.stack(floors)}
        found["between"] = torch.stack([torch.stack(row) for row in between])
        return {name: values.double().cpu().numpy() for name, values in found.items()}

    def measure(self, step: int) -> Arrays:
        said = self.subject.denoise(step, self.noisy, self.sigma)
        distance = [self.squared(said, ideal).mean(dim=2) for ideal in self.ideals.values()]
        loss = self.squared(said, self.clean)
        return {"loss": loss.float().cpu().numpy(), "distance": torch.stack(distance).double().cpu().numpy()}
