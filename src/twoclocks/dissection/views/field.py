"""View ``field``: the score on the plane through a training sample and its neighbours, learned and ideal (P1 C.4.3).

Of images: through a training image, the one nearest to it and a held-out one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.dissection.anchors import Surroundings
from twoclocks.dissection.image_anchors import copied_rows, nearest_images, neighbours_of
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.dissection.view import (
    NO_ORACLE,
    VIEWS,
    Arrays,
    Passes,
    Probe,
    ScaleInfo,
    View,
    ViewError,
    denoising_refusal,
    without_rule,
)
from twoclocks.objectives.edm import like
from twoclocks.runs.settings import RunSettings

CORNERS = ("a", "b", "c", "d")
IMAGE_SHARES = ("a", "b", "c", "other", "none")


@dataclass(frozen=True)
class Fields:
    """Denoisers evaluated on the plane; the leading axis is the step, or the oracle."""

    score: Floats  # (…, σ, grid, grid): norm of the score (D − x)/σ²
    arrows: Floats  # (…, σ, grid, grid, 2): the component of the score in the plane
    pull: Floats  # (…, σ, grid, grid): D projected on the line from x_a (−1) to x_b (+1); for bits x_c and x_d lie at 0
    shares: Floats  # (…, σ, 5): fractions of the rectangle that denoise to a, b, c, d, and to anything else
    # Images: fractions of the triangle whose outputs are copies of a, b, c, of another training image, and of none.


@dataclass(frozen=True)
class FieldInfo(ScaleInfo):
    axes: tuple[Floats, Floats]  # coordinates of the grid: along x_a → x_b, and across
    corners: Floats  # (4, 2): where a, b, c, d lie on the plane; of images (3, 2)
    hamming: int  # entries in which b differs from a; 0 for images
    learned: Fields
    oracles: tuple[str, ...]
    ideal: Fields
    pictures: npt.NDArray[np.uint8] | None = None  # images at the corners (3, channels, height, width)

    @property
    def images(self) -> bool:
        return without_rule(self.oracles)

    @property
    def share_names(self) -> tuple[str, ...]:
        return IMAGE_SHARES if self.images else (*CORNERS, "elsewhere")

    def image_sentences(self) -> list[str]:
        shares, sigma = self.learned.shares[:, self.level], self.sigmas[self.level]

        def words(row: Floats) -> str:
            names = ("a", "b", "c", "other training images", "none")
            return ", ".join(f"{share:.0%} of {name}" for share, name in zip(row, names, strict=True))

        trained = shares[:, 0] + shares[:, 1]
        most = int(trained.argmax())
        return [
            f"The plane through a training image (a), the training image nearest to it (b) and the held-out image "
            f"nearest to it (c). At σ = {sigma:.2g} points of the triangle denoise to copies as follows: "
            f"{words(shares[0])} at step {self.steps[0]:,}; {words(shares[-1])} at step {self.steps[-1]:,}.",
            f"The share of a and b is largest at step {self.steps[most]:,} ({trained[most]:.0%})."
            if trained[most]
            else "At no step does a point of it denoise to a copy of a or b.",
            f"The ideal denoiser of the training set at the same σ: {words(self.ideal.shares[0, self.level])}.",
        ]

    def sentences(self) -> list[str]:
        if self.images:
            return self.image_sentences()
        level = self.level
        shares, sigma = self.learned.shares[:, level], self.sigmas[level]

        def words(row: Floats) -> str:
            elsewhere = f", {row[4]:.0%} elsewhere" if row[4] > 0.005 else ""
            return f"{row[0]:.0%} to a, {row[1]:.0%} to b, {row[2] + row[3]:.0%} to c and d{elsewhere}"

        found = [
            f"The plane through a training sample (a), a valid unseen one that differs in {self.hamming} entries (b), "
            f"and two between them that break the rule (c, d). At σ = {sigma:.2g} points of the rectangle denoise as "
            f"follows: {words(shares[0])} at step {self.steps[0]:,}; {words(shares[-1])} at step {self.steps[-1]:,}."
        ]
        broken = shares[:, 2] + shares[:, 3]
        least = int(broken.argmin())
        found.append(
            f"The share of the rule-breaking corners is smallest at step {self.steps[least]:,} ({broken[least]:.0%}), "
            f"that of the training sample largest at step {self.steps[int(shares[:, 0].argmax())]:,} "
            f"({shares[:, 0].max():.0%})."
        )
        ideals = [f"{name}: {words(self.ideal.shares[k, level])}" for k, name in enumerate(self.oracles)]
        found.append(f"The ideal denoisers at the same σ: {'; '.join(ideals)}.")
        return found if "rule" in self.oracles else [*found, NO_ORACLE]

    def numbers(self) -> dict[str, Any]:
        def table(shares: Floats) -> dict[str, list[list[float]]]:
            return {f"{sigma:g}": shares[..., k, :].tolist() for k, sigma in enumerate(self.sigmas)}

        return {
            "hamming": self.hamming,
            "corners": list(self.share_names),
            "shares": table(self.learned.shares),
            "ideal_shares": {name: table(self.ideal.shares[k : k + 1]) for k, name in enumerate(self.oracles)},
        }


@VIEWS.register("field")
@dataclass(frozen=True, kw_only=True)
class Field(View):
    """The score on the plane through a training sample, a valid unseen neighbour and two that break the rule.

    Of images, the plane goes through a training image, its nearest one and the nearest held-out one.
    """

    reads: ClassVar[Reads] = "weights"
    sigmas: tuple[float, ...] = setting((0.2, 0.5, 1.0, 2.0), "noise scales", above=0)
    grid: int = setting(29, "points along each side", at_least=11, at_most=401)
    margin: float = setting(
        0.4, "how far the plane reaches beyond the corners, relative to their distance", at_least=0, at_most=1
    )
    anchor: int = setting(0, "which training sample: the first from this row on that has such neighbours", at_least=0)

    def check(self) -> None:
        if not self.sigmas:
            raise SettingError("sigmas", [], "give at least one noise scale, for example [0.5]")

    def refusal(self, settings: RunSettings) -> str | None:
        return denoising_refusal(settings, min(self.sigmas), max(self.sigmas))

    def passes(self, settings: RunSettings) -> Passes:
        return Passes(1, len(self.sigmas) * self.grid**2)

    def prepare(self, subject: Subject) -> Probe:
        return FieldProbe(self, subject)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> FieldInfo:
        fields = [
            Fields(**{name: one[name].astype(np.float64) for name in Fields.__dataclass_fields__})
            for one in (measurements, constants)
        ]
        return FieldInfo(
            steps=np.array(steps, dtype=np.int64),
            clocks=subject.clocks,
            sigmas=subject.unit * np.array(self.sigmas),
            unit=subject.unit,
            axes=(constants["axis_x"], constants["axis_y"]),
            corners=constants["corners"],
            hamming=int(constants["hamming"][0]),
            learned=fields[0],
            oracles=tuple(subject.oracles),
            ideal=fields[1],
            pictures=constants.get("pictures"),
        )


class FieldProbe(Probe):
    def __init__(self, view: Field, subject: Subject) -> None:
        self.view, self.subject = view, subject
        self.corners, self.hamming = self.find_corners()
        self.points = subject.encode(self.corners).double()  # (4 or 3, *shape)
        self.shape = tuple(self.points.shape[1:])
        flat = self.points.flatten(1)
        along, across = flat[1] - flat[0], flat[2] - flat[0]
        self.length = float(along.norm())
        self.e1 = along / self.length
        across = across - (across @ self.e1) * self.e1
        self.e2 = across / across.norm()
        self.origin = flat[0]
        places = torch.stack([(flat - self.origin) @ self.e1, (flat - self.origin) @ self.e2], dim=1)
        self.places = places.cpu().numpy()
        reach = view.margin * self.length
        low, high = self.places.min(axis=0) - reach, self.places.max(axis=0) + reach
        self.axes = [np.linspace(low[k], high[k], view.grid) for k in range(2)]

    def find_corners(self) -> tuple[Tensor, int]:
        """Symbols of the corners (4, *shape), and in how many entries b differs from a; of images (3, *shape) and 0."""
        count = len(self.subject.train)
        if self.subject.rule.is_image:
            a, unseen, other = neighbours_of(self.subject, torch.tensor([self.view.anchor % count]))
            return torch.cat([a, other, unseen]), 0
        around = Surroundings(self.subject.rule, self.subject.train)
        for number in range(min(count, 64)):
            found = around.corners((self.view.anchor + number) % count)
            if found is not None:
                return found.stack(), found.hamming
        raise ViewError("no training sample has a valid unseen neighbour with rule-breaking arrays between")

    @cached_property
    def inputs(self) -> tuple[Tensor, Tensor]:
        """All grid points at all σ: (σ·grid·grid, *shape), x across columns; and their σ."""
        x, y = (torch.tensor(axis, device=self.origin.device) for axis in self.axes)
        plane = self.origin + x[None, :, None] * self.e1 + y[:, None, None] * self.e2  # (y, x, entries)
        levels = self.subject.unit * torch.tensor(self.view.sigmas, device=self.origin.device, dtype=torch.float64)
        points = plane.flatten(0, 1).repeat(len(levels), 1).reshape(-1, *self.shape)
        return points, levels.repeat_interleave(self.view.grid**2)

    def constants(self) -> Arrays:
        # In float64: where an ideal is undecided between two symbols, rounding errors must not decide.
        ideals = [self.summarise(denoised) for denoised in self.subject.ideals(*self.inputs).values()]
        stacked = {name: np.stack([one[name] for one in ideals]) for name in ideals[0]}
        x, across = self.axes
        found = {"axis_x": x, "axis_y": across, "corners": self.places, "hamming": np.array([self.hamming])}
        if self.subject.rule.is_image:
            found["pictures"] = self.corners.to(torch.uint8).numpy()
        return {**stacked, **found}

    def measure(self, step: int) -> Arrays:
        points, sigma = self.inputs
        return self.summarise(self.subject.denoise(step, points.float(), sigma.float()).double())

    def summarise(self, denoised: Tensor) -> Arrays:
        """Score, arrows, pull and shares from the denoiser's output for the inputs."""
        y, sigma = self.inputs
        size = (len(self.view.sigmas), self.view.grid, self.view.grid)
        score = ((denoised - y) / like(sigma, y) ** 2).flatten(1).double()
        flat = denoised.flatten(1).double()
        middle = (self.points[0] + self.points[1]).flatten() / 2
        pull = 2 * (flat - middle) @ self.e1 / self.length
        arrows = torch.stack([score @ self.e1, score @ self.e2], dim=1)
        return {
            "score": score.norm(dim=1).reshape(size).float().cpu().numpy(),
            "arrows": arrows.reshape(*size, 2).float().cpu().numpy(),
            "pull": pull.reshape(size).float().cpu().numpy(),
            "shares": self.image_shares(denoised, size) if self.subject.rule.is_image else self.shares(denoised, size),
        }

    def shares(self, denoised: Tensor, size: tuple[int, ...]) -> Floats:
        """The fraction of the rectangle that rounds to each corner, (σ, 5); the last: to something else.

        Points on a boundary, where a denoiser is as near to one symbol as to another, are left out.
        """
        symbols = self.subject.encoding.decode(self.subject.rule, denoised).symbols.flatten(1).cpu()
        scores = self.subject.encoding.scores(self.subject.rule, denoised.double())
        assert scores is not None  # encodings without points are refused
        best = scores.topk(2, dim=2).values
        decided = ((best[..., 0] - best[..., 1]).amin(dim=1) > 1e-6).reshape(size).cpu().numpy()
        corners = self.corners.flatten(1)
        hits = (symbols[:, None] == corners).all(dim=2)  # (points, 4)
        where = torch.cat([hits, ~hits.any(dim=1, keepdim=True)], dim=1).reshape(*size, 5).numpy()
        inside = self.inside()
        return np.stack([level[inside & sure].mean(axis=0) for level, sure in zip(where, decided, strict=True)])

    def image_shares(self, denoised: Tensor, size: tuple[int, ...]) -> Floats:
        """The fraction of the triangle whose outputs are copies of each of IMAGE_SHARES, (σ, 5)."""
        train = self.subject.train
        known = torch.cat([train, self.corners[2:]])  # the held-out image counts like a training image here
        row = copied_rows(self.subject, nearest_images(self.subject, denoised, known)).cpu()
        ends = [int((train == corner).flatten(1).all(dim=1).nonzero()[0]) for corner in self.corners[:2]]
        hits = torch.stack([row == end for end in (*ends, len(train))], dim=1)
        rest = torch.stack([(row >= 0) & ~hits.any(dim=1), row < 0], dim=1)
        where = torch.cat([hits, rest], dim=1).reshape(*size, 5).double().numpy()
        return np.asarray(where[:, self.inside(triangle=True)].mean(axis=1))

    def inside(self, triangle: bool = False) -> npt.NDArray[np.bool_]:
        """(y, x): which grid points lie between the corners.

        The edges from a to c and from a to d span the rectangle, those from a to b and from a to c the triangle.
        """
        x, y = np.meshgrid(*self.axes)
        ends = self.places[1:] if triangle else self.places[2:]
        edges = (ends - self.places[0]).T  # columns
        inner = np.linalg.solve(edges, np.stack([x.ravel(), y.ravel()]) - self.places[0][:, None])
        close = 1e-9
        found = (inner > close).all(axis=0)
        found &= inner.sum(axis=0) < 1 - close if triangle else (inner < 1 - close).all(axis=0)
        return np.asarray(found, dtype=np.bool_).reshape(x.shape)
