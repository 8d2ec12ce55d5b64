"""What the productions of valid strings say, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import chi2

from twoclocks.core.arrays import Floats
from twoclocks.dissection.truth import FEWEST, Truth
from twoclocks.dissection.view import Info, plain

LEVEL = 0.01  # chance with which true samples may be said to deviate: in some layer, and in their pairs
PAIRS = ("root_mean_square", "largest")


@dataclass(frozen=True)
class Fit:
    """How well the strings of one moment agree with as many true ones; empty where they are too few."""

    number: int  # of strings
    squares: tuple[float, ...] = ()  # χ² of the usage in each layer
    freedoms: tuple[int, ...] = ()  # its degrees of freedom, 0 where the grammar leaves no choice
    pairs: tuple[float, ...] = ()  # deviations of covariances in units of noise: root mean square and largest
    usual: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (2, sets): the same of sets of true strings

    @property
    def ratios(self) -> list[float]:
        """χ²/dof of each layer; its mean is 1 for true samples."""
        return [s / f if f else 1.0 for s, f in zip(self.squares, self.freedoms, strict=True)]

    @property
    def layer_chances(self) -> list[float]:
        """The chance of such a χ², or a larger one, for true samples."""
        return [float(chi2.sf(s, f)) if f else 1.0 for s, f in zip(self.squares, self.freedoms, strict=True)]

    @property
    def pair_chances(self) -> list[float]:
        """The same for root mean square and largest deviation, by the sets of true strings."""
        sets = self.usual.shape[1]
        return [float(1 + (row >= value).sum()) / (sets + 1) for value, row in zip(self.pairs, self.usual, strict=True)]

    @property
    def said(self) -> bool:
        return bool(self.squares)

    @property
    def usage_deviates(self) -> bool:
        return any(chance <= LEVEL / len(self.squares) for chance in self.layer_chances)

    @property
    def pairs_deviate(self) -> bool:
        return any(chance <= LEVEL / len(PAIRS) for chance in self.pair_chances)

    def as_json(self) -> dict[str, Any]:
        if not self.said:
            return {"strings": self.number}
        return {
            "strings": self.number,
            "chi2_per_dof": self.ratios,
            "dof": list(self.freedoms),
            "p": self.layer_chances,
            "covariance": dict(zip(PAIRS, self.pairs, strict=True)),
            "covariance_p": dict(zip(PAIRS, self.pair_chances, strict=True)),
        }


@dataclass(frozen=True)
class ProductionsInfo(Info):
    layers: int
    names: tuple[str, ...]  # of all productions, layer by layer
    only_new: bool
    samples: int  # generated at every moment
    truth: Truth
    usage: Floats  # (steps, productions): how often a string uses each
    fits: tuple[Fit, ...]  # one a step
    early: int  # which moment is the last before τ_mem, or the last
    deviations: Floats  # (productions, productions): of covariances at that moment, in units of sampling noise

    @property
    def width(self) -> int:
        """Productions of a layer."""
        return len(self.names) // self.layers

    def band(self) -> Floats:
        """Standard deviation (productions,) of the usage of as many true strings as there are at the early stop."""
        spread: Floats = np.sqrt(np.diag(self.truth.covariance) / max(self.fits[self.early].number, 1))
        return spread

    def sentences(self) -> list[str]:
        said = list(self.report(self.early))
        return said if self.early == len(self.steps) - 1 else [*said, *self.report(len(self.steps) - 1)]

    def report(self, at: int) -> Iterator[str]:
        fit = self.fits[at]
        late = at == len(self.steps) - 1
        when = "the last evaluation" if late else "the last evaluation before τ_mem"
        what = "valid and new strings" if self.only_new else "valid strings"
        begin = f"At step {self.steps[at]:,}, {when}, {fit.number:,} of {self.samples:,} samples are {what}"
        if not fit.said:
            yield f"{begin}: too few to judge how they use productions (at least {FEWEST})."
            return
        yield f"{begin}."
        yield from self.tell_layers(at)
        ranges = [f"{low:.2f} to {high:.2f}" for low, high in np.quantile(fit.usual, (0.025, 0.975), axis=1).T]
        verdict = "choices at different nodes are not those of true samples" if fit.pairs_deviate else "as true samples"
        yield (
            f"Covariances between productions deviate from the exact ones by {fit.pairs[0]:.2f} sampling noises (root "
            f"mean square; true samples of this number: {ranges[0]}) and by {fit.pairs[1]:.2f} at most "
            f"({ranges[1]}): {verdict}."
        )

    def tell_layers(self, at: int) -> Iterator[str]:
        fit = self.fits[at]
        for layer, (ratio, chance) in enumerate(zip(fit.ratios, fit.layer_chances, strict=True), start=1):
            begin, numbers = f"Productions of layer {layer} are", f"χ²/dof = {ratio:.2f}, p = {chance:.2g}"
            if not fit.freedoms[layer - 1]:
                yield f"{begin} all fixed by the grammar."
            elif chance > LEVEL / self.layers:
                yield f"{begin} used as often as the grammar says, up to sampling noise ({numbers})."
            else:
                name, times = self.most_off(at, layer)
                yield (
                    f"{begin} not used as often as the grammar says ({numbers}); farthest off is {name}, {times:.2f} "
                    f"times as often as expected."
                )

    def most_off(self, at: int, layer: int) -> tuple[str, float]:
        """The production of a layer whose usage is farthest from the expected, in its noise; and its part of that."""
        chosen = slice((layer - 1) * self.width, layer * self.width)
        expected, used = self.truth.mean[chosen], self.usage[at, chosen]
        noise = np.sqrt(np.diag(self.truth.covariance)[chosen])
        off = np.divide(np.abs(used - expected), noise, out=np.zeros_like(noise), where=noise > 0)
        worst = int(off.argmax())
        return self.names[chosen][worst], float(used[worst] / expected[worst])

    def numbers(self) -> dict[str, Any]:
        return {
            "only_new": self.only_new,
            "early_stop": int(self.steps[self.early]),
            "productions": [
                {"layer": number // self.width + 1, "production": name, "expected": float(self.truth.mean[number])}
                for number, name in enumerate(self.names)
            ],
            "usage": [plain(row) for row in self.usage],
            "fits": [fit.as_json() for fit in self.fits],
        }
