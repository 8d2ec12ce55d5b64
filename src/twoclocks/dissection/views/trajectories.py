"""View ``trajectories``: the noise scale at which a sampling path decides whether its sample is valid or a copy.

At every level of the sampler the denoiser's output D(x; σ) is compared with that of each oracle, and rounded to
symbols. From which σ on is the rounded output valid, from which on a training sample, from which on the final sample?
Images are compared with the training set's oracle alone, and are copies by the ratio of their distances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.dissection.image_anchors import copied_rows, nearest_images
from twoclocks.dissection.subject import Reads, Subject, finite
from twoclocks.dissection.view import (
    NO_ORACLE,
    VIEWS,
    Arrays,
    Info,
    Passes,
    Probe,
    View,
    denoising_refusal,
    plain,
    without_rule,
)
from twoclocks.objectives.base import OBJECTIVES, Denoiser, Objective
from twoclocks.runs.assembly import sampling_noise
from twoclocks.runs.settings import RunSettings

ALIKE = 1e-3  # mean squared distance between the two nearest oracles below which they count as equal
LARGEST = 20.0  # σ above which everything is noise; a DDPM begins at tens of thousands
OUTCOMES = ("settled", "valid", "copied")  # the rounded output is the final sample, valid, a training sample
IMAGE_OUTCOMES = ("settled", "copied")  # its nearest training image is that of the final sample; it is a copy
WORDS = {
    "settled": "half of the paths round to their final sample from σ = {:.2g} on",
    "valid": "half of those that end valid round to valid samples from σ = {:.2g} on",
    "copied": "half of those that end as copies round to training samples from σ = {:.2g} on",
}
IMAGE_WORDS = {
    "settled": "half of the paths are nearest to the training image of their final sample from σ = {:.2g} on",
    "copied": "half of those that end as copies are copies from σ = {:.2g} on",
}


@dataclass(frozen=True)
class TrajectoriesInfo(Info):
    sigmas: Floats  # of the sampler's levels, decreasing
    oracles: tuple[str, ...]
    nearest: Floats  # (steps, σ, oracles + 1): fraction of noises nearest to each oracle; last: two are equally near
    distance: Floats  # (steps, σ, oracles): mean squared distance to each
    quartiles: dict[str, Floats]  # outcome: (steps, 3): quartiles of the σ at which it is decided; NaN: no such path
    ended: dict[str, Floats]  # outcome: (steps,): fraction of the paths that end so
    noises: int
    copies: Floats | None = None  # images: (steps, σ, 2): fraction of outputs that are copies: learned, and the ideal's

    @property
    def images(self) -> bool:
        return without_rule(self.oracles)

    @property
    def outcomes(self) -> tuple[str, ...]:
        return tuple(self.quartiles)

    def sentences(self) -> list[str]:
        found, words = [], IMAGE_WORDS if self.images else WORDS
        for at in sorted({0, len(self.steps) - 1}):
            parts = [
                words[outcome].format(self.quartiles[outcome][at, 1])
                for outcome in self.outcomes
                if np.isfinite(self.quartiles[outcome][at, 1])
            ]
            found.append(f"At step {self.steps[at]:,} " + "; ".join(parts) + ".")
        if self.images:
            return [*found, *self.memory_words()]
        apart = self.nearest[-1, :, -1] < 0.5
        if apart.any():
            mean = self.nearest[-1, apart].mean(axis=0)
            names = (*self.oracles, "two equally near")
            shares = ", ".join(f"{name} {share:.0%}" for name, share in zip(names, mean, strict=True))
            where = f"over the {int(apart.sum())} noise scales at which most paths have a single nearest ideal"
            found.append(f"Nearest ideal denoiser at step {self.steps[-1]:,}, {where}: {shares}.")
        return found if "rule" in self.oracles else [*found, NO_ORACLE]

    def memory_words(self) -> list[str]:
        """Where on the paths the outputs of the last checkpoint differ most from the training set's ideal."""
        distance = np.sqrt(self.distance[-1, :, 0])
        far = int(np.where(self.sigmas <= LARGEST, distance, -1).argmax())
        ended = self.ended["copied"]
        return [
            f"At step {self.steps[-1]:,} outputs differ most from the ideal denoiser of the training set at σ = "
            f"{self.sigmas[far]:.2g} (by {distance[far]:.2f}, root mean square over pixels).",
            f"{ended[0]:.0%} of the paths end as copies at step {self.steps[0]:,}, {ended[-1]:.0%} at step "
            f"{self.steps[-1]:,}.",
        ]

    def numbers(self) -> dict[str, Any]:
        return {
            "sigmas": self.sigmas.tolist(),
            "oracles": [*self.oracles, "alike"],
            "nearest": self.nearest.tolist(),
            "decided": {outcome: [plain(row) for row in self.quartiles[outcome]] for outcome in self.outcomes},
            "ended": {outcome: self.ended[outcome].tolist() for outcome in self.outcomes},
            **({} if self.copies is None else {"copies": self.copies.tolist(), "distance": self.distance.tolist()}),
        }


@VIEWS.register("trajectories")
@dataclass(frozen=True, kw_only=True)
class Trajectories(View):
    """The noise scale at which sampling decides that a sample is valid, or a copy."""

    reads: ClassVar[Reads] = "weights"
    noises: int = setting(
        64, "sampling paths that are followed, from the first noises of the run", at_least=1, at_most=10**6
    )

    def refusal(self, settings: RunSettings) -> str | None:
        sigmas = settings.objective.sampler_sigmas()
        if sigmas is None and settings.objective.offers("denoiser"):
            return f"objective {OBJECTIVES.name_of(settings.objective)} does not sample along falling noise scales"
        unit = settings.encoding.unit(settings.rule) if settings.encoding is not None else 1.0
        levels = [1.0] if sigmas is None else (sigmas[:-1] / unit).tolist()
        return denoising_refusal(settings, min(levels), max(levels))

    def passes(self, settings: RunSettings) -> Passes:
        """The calls of one path, counted with a denoiser that does nothing."""
        assert settings.encoding is not None
        calls = 0

        def counting(y: Tensor, sigma: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return y

        follow(settings.objective, counting, torch.zeros((1, *settings.encoding.shape(settings.rule))))
        return Passes(calls, min(self.noises, settings.evaluation.samples))

    def prepare(self, subject: Subject) -> Probe:
        return TrajectoriesProbe(self, subject)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> TrajectoriesInfo:
        sigmas = levels_of(subject.objective).numpy()
        kinds, images = len(subject.oracles) + 1, subject.rule.is_image
        nearest = np.stack([(measurements["nearest"] == k).mean(axis=1) for k in range(kinds)], axis=2)
        levels = {name: measurements[name].astype(np.intp) for name in (IMAGE_OUTCOMES if images else OUTCOMES)}
        # (steps, noises): level, or −1
        return TrajectoriesInfo(
            steps=np.array(steps, dtype=np.int64),
            clocks=subject.clocks,
            sigmas=sigmas,
            oracles=tuple(subject.oracles),
            nearest=nearest,
            distance=measurements["distance"],
            quartiles={outcome: quartiles(rows, sigmas) for outcome, rows in levels.items()},
            ended={outcome: (rows >= 0).mean(axis=1) for outcome, rows in levels.items()},
            noises=measurements["nearest"].shape[1],
            copies=measurements["copies"] if images else None,
        )


def quartiles(levels: npt.NDArray[np.intp], sigmas: Floats) -> Floats:
    """Quartiles (steps, 3) of the σ at the levels (steps, noises) that are ≥ 0."""
    found = np.full((len(levels), 3), np.nan)
    for row, chosen in enumerate(levels):
        if (chosen >= 0).any():
            found[row] = np.percentile(sigmas[chosen[chosen >= 0]], [25, 50, 75])
    return found


def decided(holds: Tensor) -> Tensor:
    """The level from which on something holds to the end, (n,) from bool (n, levels); −1 where the end fails."""
    lasting = holds.flip(1).long().cumprod(dim=1).sum(dim=1)
    return torch.where(lasting > 0, holds.shape[1] - lasting, -1)


def levels_decided(outcomes: Mapping[str, Tensor]) -> Arrays:
    """Of every outcome, the level from which on it holds."""
    return {outcome: decided(holds).to("cpu", torch.int16).numpy() for outcome, holds in outcomes.items()}


class TrajectoriesProbe(Probe):
    def __init__(self, view: Trajectories, subject: Subject) -> None:
        self.subject, self.objective = subject, subject.objective
        self.noise = sampling_noise(subject.settings)[: view.noises].to(subject.device)

    def measure(self, step: int) -> Arrays:
        denoiser = self.subject.denoiser(step)
        share = -(-len(self.noise) // self.subject.pool.size)
        both = self.subject.in_chunks(lambda noise: follow(self.objective, denoiser, noise), self.noise, size=share)
        states, denoised = finite(both, step).unbind(dim=2)  # (n, levels, *shape) each
        if self.subject.rule.is_image:
            return self.measure_images(states, denoised)
        nearest, distance = self.compare_with_oracles(states, denoised)
        rounded = self.subject.encoding.decode(self.subject.rule, denoised.flatten(0, 1)).symbols
        valid, copied = self.subject.rule.is_valid(rounded), self.subject.evaluator.copies.found(rounded)
        symbols = rounded.reshape(*denoised.shape[:2], -1)
        settled = (symbols == symbols[:, -1:]).all(dim=2)
        size = denoised.shape[:2]
        outcomes = dict(zip(OUTCOMES, (settled, valid.reshape(size), copied.reshape(size)), strict=True))
        return {"nearest": nearest, "distance": distance, **levels_decided(outcomes)}

    def measure_images(self, states: Tensor, denoised: Tensor) -> Arrays:
        """Distance to the training set's ideal, and copies among the outputs of both, at every level."""
        size, denoised = denoised.shape[:2], denoised.clamp(-1, 1)  # the range of pixels: σε̂ of a DDPM is huge at first
        sigma = levels_of(self.objective).to(states.device).repeat(len(states))
        ideal = self.subject.ideals(states.flatten(0, 1), sigma)["memory"]
        distance = (ideal - denoised.flatten(0, 1)).flatten(1).square().mean(dim=1).reshape(size).mean(dim=0)
        learned, best = (nearest_images(self.subject, one) for one in (denoised.flatten(0, 1), ideal))
        copied, copied_by_ideal = (copied_rows(self.subject, one).reshape(size) >= 0 for one in (learned, best))
        rows = learned.row[:, 0].reshape(size)
        outcomes = dict(zip(IMAGE_OUTCOMES, (rows == rows[:, -1:], copied), strict=True))
        copies = torch.stack([copied, copied_by_ideal], dim=2).double().mean(dim=0)
        return {
            "nearest": np.zeros(size, dtype=np.int8),  # there is one oracle
            "distance": distance[:, None].double().cpu().numpy(),
            "copies": copies.cpu().numpy(),
            **levels_decided(outcomes),
        }

    def compare_with_oracles(self, states: Tensor, denoised: Tensor) -> tuple[Any, Any]:
        """The index of the nearest oracle (n, levels), and mean squared distances (levels, oracles)."""
        sigma = levels_of(self.objective).to(states.device).repeat(len(states))
        flat = states.flatten(0, 1)
        ideals = torch.stack(list(self.subject.ideals(flat, sigma).values()))
        distance = (ideals - denoised.flatten(0, 1)).flatten(2).square().mean(dim=2).T  # (n·levels, oracles)
        between = (ideals[:, None] - ideals[None]).flatten(3).square().mean(dim=3)  # (oracles, oracles, n·levels)
        first, second = distance.topk(2, dim=1, largest=False).indices.unbind(dim=1)
        apart = between[first, second, torch.arange(len(flat), device=flat.device)] > ALIKE
        nearest = torch.where(apart, first, len(ideals)).reshape(denoised.shape[:2])
        means = distance.reshape(*denoised.shape[:2], -1).mean(dim=0)
        return nearest.to("cpu", torch.int8).numpy(), means.double().cpu().numpy()


def levels_of(objective: Objective) -> Tensor:
    """σ at which the sampler evaluates the denoiser first in each reverse step (levels,)."""
    sigmas = objective.sampler_sigmas()
    assert sigmas is not None  # other objectives are refused
    return sigmas[:-1]


def follow(objective: Objective, denoiser: Denoiser, noise: Tensor) -> Tensor:
    """A sampling path: at every level the state and the denoiser's output for it, (n, levels, 2, *shape)."""
    outputs: list[Tensor] = []

    def recording(y: Tensor, sigma: Tensor) -> Tensor:
        outputs.append(denoiser(y, sigma))
        return outputs[-1]

    states, denoised, state = [], [], objective.begin(denoiser, noise)
    for level in range(len(levels_of(objective))):
        outputs.clear()
        states.append(state)
        state = objective.denoising_step(recording, state, level)
        denoised.append(outputs[0])  # the first is at the state itself; others correct the step
    return torch.stack([torch.stack(states, dim=1), torch.stack(denoised, dim=1)], dim=2)
