"""View ``basin``: the width of a training sample's basin towards three kinds of neighbours (P1 C.4.3, Fig. 16).

The denoiser is evaluated at noise scale σ on the line x_a + t (x_e − x_a). For bits, the ideal denoiser of the cube
changes from x_a to x_e at t = 0.5, whatever x_e is. That of the rule returns x_a further out where x_e breaks the rule,
that of the training set where x_e is not a training sample. Images count as returned where the output is a copy of x_a,
and x_e is a held-out or another training image, the nearest of each.
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
from twoclocks.dissection.anchors import Surroundings
from twoclocks.dissection.bootstrap import band
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
from twoclocks.runs.settings import RunSettings

LINES = ("rule-breaking", "valid, unseen", "training")  # what x_e is
METRICS = ("match", "hamming", "l2")
IMAGE_LINES = ("held-out", "training")
IMAGE_METRICS = ("match", "rms")


@dataclass(frozen=True)
class BasinInfo(ScaleInfo):
    t: Floats  # positions on the line: 0 at the training sample, 1 at the neighbour
    mean: dict[str, Floats]  # metric: (steps, σ, lines, t), mean over anchors
    low: dict[str, Floats]  # 5% and 95% of the bootstrap distribution of that mean
    high: dict[str, Floats]
    width: Floats  # (steps, σ, lines): mean half-width, the t up to which x_a is returned; at most t's end
    width_low: Floats  # 95% bootstrap interval
    width_high: Floats
    capped: Floats  # (steps, σ, lines): fraction of the anchors whose basin reaches the line's end: they are wider
    ideal: Floats  # (oracles, σ, lines): half-widths of the oracles
    oracles: tuple[str, ...]
    anchors: int
    lines: tuple[str, ...] = LINES

    @property
    def images(self) -> bool:
        return without_rule(self.oracles)

    def sentences(self) -> list[str]:
        level, what = self.level, "images" if self.images else "samples"
        found = [
            f"Half-widths of basins at σ = {self.sigmas[level]:.2g}, mean over {self.anchors} training {what} with "
            f"95% interval; 0.5 is half-way to the neighbour."
        ]
        if self.images:
            found.append("An image counts as returned where the output is a copy of it (ratio of distances).")
        for line, name in enumerate(self.lines):
            widest = int(self.width[:, level, line].argmax())
            names = ("of the training set",) if self.images else self.oracles
            ideal = ", ".join(f"{o} {self.ideal[k, level, line]:.2f}" for k, o in enumerate(names))
            found.append(
                f"Towards a {name} neighbour: {self.width_words(0, line)} at step {self.steps[0]:,}, largest "
                f"{self.width_words(widest, line)} at step {self.steps[widest]:,}, {self.width_words(-1, line)} at "
                f"step {self.steps[-1]:,}; ideal denoiser{'' if self.images else 's:'} {ideal}."
            )
        return found if "rule" in self.oracles or self.images else [*found, NO_ORACLE]

    def width_words(self, at: int, line: int) -> str:
        width, low, high = (one[at, self.level, line] for one in (self.width, self.width_low, self.width_high))
        return f"{'at least ' if self.capped[at, self.level, line] else ''}{width:.2f} ({low:.2f} to {high:.2f})"

    def numbers(self) -> dict[str, Any]:
        return {
            "sigmas": self.sigmas.tolist(),
            "anchors": self.anchors,
            "half_width": {
                line: {
                    f"{sigma:g}": [
                        [float(one[at, s, k]) for one in (self.width, self.width_low, self.width_high)]
                        for at in range(len(self.steps))
                    ]
                    for s, sigma in enumerate(self.sigmas)
                }
                for k, line in enumerate(self.lines)
            },
            "ideal_half_width": {name: self.ideal[k].tolist() for k, name in enumerate(self.oracles)},
        }


@VIEWS.register("basin")
@dataclass(frozen=True, kw_only=True)
class Basin(View):
    """How far from a training sample denoising still returns it, on lines to three kinds of neighbours."""

    reads: ClassVar[Reads] = "weights"
    interprets: ClassVar[tuple[str, ...]] = ("resamples",)
    sigmas: tuple[float, ...] = setting((0.5, 1.0), "noise scales", above=0)
    anchors: int = setting(16, "training samples from which lines start", at_least=5, at_most=10**5)
    points: int = setting(40, "points on a line, evenly spaced", at_least=5, at_most=10**4)
    begin: float = setting(-0.5, "where lines begin; 0 is the training sample", at_most=0)
    end: float = setting(1.5, "where lines end; 1 is the neighbour", at_least=1)
    resamples: int = setting(400, "bootstrap samples of the anchors", at_least=10, at_most=10**6)

    def check(self) -> None:
        if not self.sigmas:
            raise SettingError("sigmas", [], "give at least one noise scale, for example [0.5]")

    def refusal(self, settings: RunSettings) -> str | None:
        return denoising_refusal(settings, min(self.sigmas), max(self.sigmas))

    def t(self) -> Floats:
        borders = np.linspace(self.begin, self.end, self.points + 1)
        return (borders[1:] + borders[:-1]) / 2

    def passes(self, settings: RunSettings) -> Passes:
        lines = IMAGE_LINES if settings.rule.is_image else LINES
        return Passes(1, len(self.sigmas) * len(lines) * min(self.anchors, settings.data.n) * self.points)

    def prepare(self, subject: Subject) -> Probe:
        return BasinProbe(self, subject)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> BasinInfo:
        lines, metrics = (IMAGE_LINES, IMAGE_METRICS) if subject.rule.is_image else (LINES, METRICS)
        values = {metric: measurements[metric].astype(np.float64) for metric in metrics}
        bands = {metric: band(values[metric], 3, 5, 95, self.resamples) for metric in metrics}
        widths = half_widths(values["match"] > 0.5, self.t(), self.end)
        low, high = band(widths, 3, 2.5, 97.5, self.resamples)
        return BasinInfo(
            steps=np.array(steps, dtype=np.int64),
            clocks=subject.clocks,
            sigmas=subject.unit * np.array(self.sigmas),
            unit=subject.unit,
            t=self.t(),
            mean={metric: values[metric].mean(axis=3) for metric in metrics},
            low={metric: bands[metric][0] for metric in metrics},
            high={metric: bands[metric][1] for metric in metrics},
            width=widths.mean(axis=3),
            width_low=low,
            width_high=high,
            capped=(widths >= self.end - 1e-9).mean(axis=3),
            ideal=half_widths(constants["match"] > 0.5, self.t(), self.end).mean(axis=3),
            oracles=tuple(subject.oracles),
            anchors=values["match"].shape[3],
            lines=lines,
        )


def half_widths(match: Any, t: Floats, end: float) -> Floats:
    """The t up to which a profile (…, t) matches without a break, half-way to the first point that does not.

    Points at t < 0 do not count. 0: the first point already fails; ``end``: none does.
    """
    points = t[t > 0]
    reach = np.cumprod(match[..., t > 0], axis=-1).sum(axis=-1)  # consecutive points that match
    borders = np.concatenate([[0.0], (points[1:] + points[:-1]) / 2, [end]])
    return np.asarray(borders[reach], dtype=np.float64)


class BasinProbe(Probe):
    def __init__(self, view: Basin, subject: Subject) -> None:
        self.view, self.subject = view, subject
        self.starts, self.ends = self.find_lines()  # (anchors, *rule), (lines, anchors, *rule)

    def find_lines(self) -> tuple[Tensor, Tensor]:
        if self.subject.rule.is_image:
            rows = torch.arange(min(self.view.anchors, len(self.subject.train)))
            starts, *ends = neighbours_of(self.subject, rows)
            return starts, torch.stack(ends)
        return self.lines_of_symbols()

    def lines_of_symbols(self) -> tuple[Tensor, Tensor]:
        around = Surroundings(self.subject.rule, self.subject.train)
        starts, ends = [], []
        for row in range(len(self.subject.train)):
            corners, start = around.corners(row), self.subject.train[row]
            broken = around.broken_neighbour(start)
            if corners is not None and broken is not None:
                starts.append(start)
                ends.append(torch.stack([broken, corners.b, around.nearest_training(row)]))
            if len(starts) == self.view.anchors or row - len(starts) > 256:
                break
        if len(starts) < min(2, len(self.subject.train)):
            raise ViewError("fewer than two training samples have a valid unseen and a rule-breaking neighbour")
        return torch.stack(starts), torch.stack(ends, dim=1)

    @cached_property
    def inputs(self) -> tuple[Tensor, Tensor]:
        """All points on all lines at all σ, (σ·lines·anchors·t, *shape), and their σ."""
        start = self.subject.encode(self.starts)  # (anchors, *shape)
        end = torch.stack([self.subject.encode(line) for line in self.ends])
        t = torch.tensor(self.view.t(), dtype=torch.float32, device=start.device)
        t = t.reshape(-1, *[1] * (start.dim() - 1))
        lines = start[:, None] + t * (end - start)[:, :, None]  # (lines, anchors, t, *shape)
        sigmas = self.subject.unit * torch.tensor(self.view.sigmas, dtype=torch.float32, device=start.device)
        flat = lines.flatten(0, 2)
        return flat.repeat(len(sigmas), *[1] * (flat.dim() - 1)), sigmas.repeat_interleave(len(flat))

    def constants(self) -> Arrays:
        found = [self.summarise(denoised) for denoised in self.subject.ideals(*self.inputs).values()]
        return {"match": np.stack([one["match"] for one in found])}

    def measure(self, step: int) -> Arrays:
        return self.summarise(self.subject.denoise(step, *self.inputs))

    def summarise(self, denoised: Tensor) -> Arrays:
        """Each metric of the denoiser's output as (σ, lines, anchors, t)."""
        size = (len(self.view.sigmas), len(self.ends), len(self.starts), self.view.points)
        encoded = self.subject.encode(self.starts).flatten(1)
        away = (denoised.reshape(*size, -1) - encoded[None, None, :, None]).norm(dim=4)
        if self.subject.rule.is_image:
            rows = torch.arange(len(self.starts), device=denoised.device)[:, None]  # anchors are the first rows
            copied = copied_rows(self.subject, nearest_images(self.subject, denoised)).reshape(size)
            rms = away / math.sqrt(encoded.shape[1])
            return {"match": (copied == rows).to(torch.uint8).cpu().numpy(), "rms": rms.float().cpu().numpy()}
        symbols = self.subject.encoding.decode(self.subject.rule, denoised).symbols.flatten(1)
        start = self.starts.flatten(1).to(symbols.device)
        differs = (symbols.reshape(*size, -1) != start[None, None, :, None]).sum(dim=4)
        return {
            "match": (differs == 0).to(torch.uint8).cpu().numpy(),
            "hamming": differs.to(torch.int32).cpu().numpy(),
            "l2": away.float().cpu().numpy(),
        }
