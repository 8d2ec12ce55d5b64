"""Metrics of texts: how long the runs are that samples share with training texts, and how far the nearest text is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

from twoclocks.core.lazy import torch
from twoclocks.evaluation.metric import METRICS, Column, Metric, mean
from twoclocks.evaluation.samples import Samples

if TYPE_CHECKING:
    from torch import Tensor

QUANTILES = {"_low": 0.1, "_median": 0.5, "_high": 0.9}


@METRICS.register("verbatim_run")
class VerbatimRun(Metric):
    """Longest run of tokens that also occurs in a training text: mean and quantiles, and the same of held-out texts."""

    name: ClassVar[str] = "verbatim_run"
    place: ClassVar[int] = 11
    of: ClassVar[Literal["texts"]] = "texts"

    def columns(self) -> list[Column]:
        held_out = self.reference.held_out_runs
        floor = {} if held_out is None else described(self.name, held_out)
        about = "longest run of tokens that also occurs in a training text"
        return [
            Column(
                name=name,
                about=f"{words} over samples of the {about}",
                direction="higher is copying",
                chance_rule=float(floor[name]) if name in floor else None,
            )
            for name, words in names_of(self.name).items()
        ]

    def __call__(self, samples: Samples) -> dict[str, Tensor]:
        return described(self.name, samples.runs)


@METRICS.register("text_distance")
class TextDistance(Metric):
    """Share of tokens that differ from the nearest training text (Hamming): mean and quantiles, as P2 reports it."""

    name: ClassVar[str] = "text_distance"
    place: ClassVar[int] = 12
    of: ClassVar[Literal["texts"]] = "texts"

    def columns(self) -> list[Column]:
        held_out = self.reference.held_out
        floor = {} if held_out is None else self.described(held_out)
        return [
            Column(
                name=name,
                about=f"{words} over samples of the share of tokens that differ from the nearest training text",
                direction="neither",
                chance_rule=float(floor[name]) if name in floor else None,
            )
            for name, words in names_of(self.name).items()
        ]

    def described(self, rows: Tensor) -> dict[str, Tensor]:
        neighbours = self.reference.neighbours
        return described(self.name, neighbours.distance(rows).double() / neighbours.length)

    def __call__(self, samples: Samples) -> dict[str, Tensor]:
        return self.described(samples.symbols)


def names_of(name: str) -> dict[str, str]:
    """The columns of a number per sample, and what each is."""
    return {name: "mean"} | {f"{name}{end}": f"{share:.0%} quantile" for end, share in QUANTILES.items()}


def described(name: str, values: Tensor) -> dict[str, Tensor]:
    """Mean and quantiles of a number per sample (n,), by column."""
    shares = torch.tensor([*QUANTILES.values()], dtype=torch.float64, device=values.device)
    quantiles = torch.quantile(values.double(), shares) if len(values) else torch.full_like(shares, math.nan)
    return {name: mean(values)} | {f"{name}{end}": value for end, value in zip(QUANTILES, quantiles, strict=True)}
