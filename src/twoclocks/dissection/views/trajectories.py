"""At which noise scale a sample's fate is decided: the way from noise to sample, beside the ideal denoisers.

At every level of the sampler the denoiser's word D(x; σ) is compared with what each oracle would say there, and
rounded: from which σ on is it valid, from which on a training sample, from which on what it ends as?
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
from twoclocks.dissection.subject import Reads, Subject, finite
from twoclocks.dissection.view import NO_ORACLE, VIEWS, Arrays, Info, Probe, View, needs_noise_levels, plain
from twoclocks.objectives.edm import EDM, Denoiser
from twoclocks.runs.assembly import sampling_noise
from twoclocks.runs.settings import RunSettings

ALIKE = 1e-3  # mean squared distance between the two nearest oracles below which neither is the nearer one
FATES = ("settled", "valid", "copied")


@dataclass(frozen=True)
class TrajectoriesInfo(Info):
    sigmas: Floats  # of the sampler's levels, falling
    oracles: tuple[str, ...]
    nearest: Floats  # (steps, σ, oracles + 1): part of the noises nearest to each oracle; the last: two are alike
    distance: Floats  # (steps, σ, oracles): mean squared distance to each
    quartiles: dict[
        str, Floats
    ]  # fate: (steps, 3): quartiles of the σ at which it is decided; NaN where it is nobody's
    ended: dict[str, Floats]  # fate: (steps,): part of the noises that end so
    noises: int

    def sentences(self) -> list[str]:
        said = []
        words = {
            "settled": "a path rounds to its final sample from σ = {:.2g} on",
            "valid": "of the paths that end valid, half round to valid samples from σ = {:.2g} on",
            "copied": "of those that end as copies, half do so from σ = {:.2g} on",
        }
        for at in sorted({0, len(self.steps) - 1}):
            told = [
                words[fate].format(self.quartiles[fate][at, 1])
                for fate in FATES
                if np.isfinite(self.quartiles[fate][at, 1])
            ]
            said.append(f"At step {self.steps[at]:,} " + "; ".join(told) + ".")
        apart = self.nearest[-1, :, -1] < 0.5
        if apart.any():
            mean = self.nearest[-1, apart].mean(axis=0)
            shares = ", ".join(f"{n} {part:.0%}" for n, part in zip((*self.oracles, "two alike"), mean, strict=True))
            where = "Where most paths tell the nearest ideal from the next"
            said.append(f"{where}, at step {self.steps[-1]:,} it is: {shares}.")
        return said if "rule" in self.oracles else [*said, NO_ORACLE]

    def numbers(self) -> dict[str, Any]:
        return {
            "sigmas": self.sigmas.tolist(),
            "oracles": [*self.oracles, "alike"],
            "nearest": self.nearest.tolist(),
            "decided": {fate: [plain(row) for row in self.quartiles[fate]] for fate in FATES},
            "ended": {fate: self.ended[fate].tolist() for fate in FATES},
        }


@VIEWS.register("trajectories")
@dataclass(frozen=True, kw_only=True)
class Trajectories(View):
    """At which noise scale samples are decided to be valid, and to be copies."""

    reads: ClassVar[Reads] = "weights"
    noises: int = setting(64, "noises whose paths are followed, the first of the run's own", at_least=1, at_most=10**6)

    def refusal(self, settings: RunSettings) -> str | None:
        return needs_noise_levels(settings)

    def prepare(self, subject: Subject) -> Probe:
        return TrajectoriesProbe(self, subject)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> TrajectoriesInfo:
        assert isinstance(subject.objective, EDM)
        sigmas = subject.objective.schedule()[:-1].numpy()
        kinds = len(subject.oracles) + 1
        nearest = np.stack([(measurements["nearest"] == k).mean(axis=1) for k in range(kinds)], axis=2)
        decided = {fate: measurements[fate].astype(np.intp) for fate in FATES}  # (steps, noises): level, or −1
        return TrajectoriesInfo(
            steps=np.array(steps, dtype=np.int64),
            clocks=subject.clocks,
            sigmas=sigmas,
            oracles=tuple(subject.oracles),
            nearest=nearest,
            distance=measurements["distance"],
            quartiles={fate: quartiles(levels, sigmas) for fate, levels in decided.items()},
            ended={fate: (levels >= 0).mean(axis=1) for fate, levels in decided.items()},
            noises=measurements["nearest"].shape[1],
        )


def quartiles(levels: npt.NDArray[np.intp], sigmas: Floats) -> Floats:
    """Of the σ at the levels ≥ 0, (steps, 3)."""
    found = np.full((len(levels), 3), np.nan)
    for row, chosen in enumerate(levels):
        if (chosen >= 0).any():
            found[row] = np.percentile(sigmas[chosen[chosen >= 0]], [25, 50, 75])
    return found


def decided(holds: Tensor) -> Tensor:
    """The level from which on something holds to the end, (n,) of bool (n, levels); −1 where it does not at the end."""
    lasting = holds.flip(1).long().cumprod(dim=1).sum(dim=1)
    return torch.where(lasting > 0, holds.shape[1] - lasting, -1)


class TrajectoriesProbe(Probe):
    def __init__(self, view: Trajectories, subject: Subject) -> None:
        assert isinstance(subject.objective, EDM)
        self.subject, self.objective = subject, subject.objective
        self.noise = sampling_noise(subject.settings)[: view.noises].to(subject.device)

    def measure(self, step: int) -> Arrays:
        denoiser = self.objective.denoiser(self.subject.network(step))
        share = -(-len(self.noise) // self.subject.pool.size)
        both = self.subject.in_pieces(lambda noise: follow(self.objective, denoiser, noise), self.noise, size=share)
        states, said = finite(both, step).unbind(dim=2)  # (n, levels, *shape) each
        nearest, distance = self.compare(states, said)
        rounded = self.subject.encoding.decode(self.subject.rule, said.flatten(0, 1)).symbols
        valid, copied = self.subject.rule.is_valid(rounded), self.subject.evaluator.copies.found(rounded)
        symbols = rounded.reshape(*said.shape[:2], -1)
        settled = (symbols == symbols[:, -1:]).all(dim=2)
        size = said.shape[:2]
        fates = dict(zip(FATES, (settled, valid.reshape(size), copied.reshape(size)), strict=True))
        levels = {fate: decided(holds).to("cpu", torch.int16).numpy() for fate, holds in fates.items()}
        return {"nearest": nearest, "distance": distance, **levels}

    def compare(self, states: Tensor, said: Tensor) -> tuple[Any, Any]:
        """The index of the nearest oracle (n, levels), and mean squared distances (levels, oracles)."""
        sigma = self.objective.schedule()[:-1].to(states.device).repeat(len(states))
        flat = states.flatten(0, 1)
        ideals = torch.stack(list(self.subject.ideals(flat, sigma).values()))
        distance = (ideals - said.flatten(0, 1)).flatten(2).square().mean(dim=2).T  # (n·levels, oracles)
        between = (ideals[:, None] - ideals[None]).flatten(3).square().mean(dim=3)  # (oracles, oracles, n·levels)
        first, second = distance.topk(2, dim=1, largest=False).indices.unbind(dim=1)
        apart = between[first, second, torch.arange(len(flat), device=flat.device)] > ALIKE
        nearest = torch.where(apart, first, len(ideals)).reshape(said.shape[:2])
        means = distance.reshape(*said.shape[:2], -1).mean(dim=0)
        return nearest.to("cpu", torch.int8).numpy(), means.double().cpu().numpy()


def follow(objective: EDM, denoiser: Denoiser, noise: Tensor) -> Tensor:
    """A sampling path: at every level the state and what the denoiser says of it, (n, levels, 2, *shape)."""
    said: list[Tensor] = []

    def heard(y: Tensor, sigma: Tensor) -> Tensor:
        said.append(denoiser(y, sigma))
        return said[-1]

    states, state = [], objective.begin(denoiser, noise)
    for level in range(objective.levels):
        states.append(state)
        state = objective.heun_step(heard, state, level)
    # Two words a level, the second for Heun's correction; the last level has one.
    return torch.stack([torch.stack(states, dim=1), torch.stack(said[::2], dim=1)], dim=2)
