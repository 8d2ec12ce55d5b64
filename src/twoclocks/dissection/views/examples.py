"""View ``examples``: samples of an early stop beside those of the last step, each with its nearest training row.

The same noises at every step, images or texts: P2 shows early-stopped and final samples so (Fig. 1 and App. E).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from twoclocks.core.config import setting
from twoclocks.core.suffix_array import SuffixArray
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.dissection.view import VIEWS, Arrays, Info, Probe, View
from twoclocks.evaluation.image_neighbours import ImageNeighbours
from twoclocks.rules.base import Rule
from twoclocks.runs.settings import RunSettings


@dataclass(frozen=True)
class Examples:
    """The samples that are shown of one step, and their nearest training rows."""

    step: int
    samples: npt.NDArray[Any]  # (shown, *shape): pixels or symbols
    nearest: npt.NDArray[Any]  # (shown, *shape)
    copied: npt.NDArray[np.bool_]  # (shown,)
    copy_rate: float  # of all stored samples of this step
    sample_texts: tuple[str, ...] = ()  # of texts: the longest run that both share stands between [[ and ]]
    nearest_texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExamplesInfo(Info):
    """Two steps: the last one before copying begins, and the last of all; only the second where nothing is copied."""

    shown: tuple[Examples, ...]
    images: bool

    @property
    def is_early(self) -> bool:
        """Whether there is a step before τ_mem to show."""
        return len(self.shown) > 1

    def sentences(self) -> list[str]:
        what = "images" if self.images else "texts"
        said = [f"{one.copy_rate:.0%} of the {what} generated at step {one.step:,} are copies" for one in self.shown]
        if not self.is_early:
            return [f"{said[0]}. No step before copying has stored samples, or copying was not seen."]
        return [f"{said[0]}, the last with stored samples before copying is seen; {said[1]}, from the same noises."]

    def numbers(self) -> dict[str, Any]:
        return {
            "steps": [one.step for one in self.shown],
            "copy_rate": [one.copy_rate for one in self.shown],
            "shown": len(self.shown[-1].samples),
            "texts": [{"sample": one.sample_texts, "nearest": one.nearest_texts} for one in self.shown]
            if not self.images
            else None,
        }


@VIEWS.register("examples")
@dataclass(frozen=True, kw_only=True)
class ExamplesView(View):
    """Samples before τ_mem and at the end, beside their nearest training images or texts."""

    reads: ClassVar[Reads] = "samples"
    most: int = setting(16, "samples that are shown of each step", at_least=1, at_most=256)

    def refusal(self, settings: RunSettings) -> str | None:
        if settings.rule.has_rule or not (settings.rule.is_image or settings.rule.is_text):
            return "the data are neither images nor texts; the page shows samples of a rule in the view raster"
        return None

    def prepare(self, subject: Subject) -> Probe:
        return ExamplesProbe(subject, self.most)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> ExamplesInfo:
        at = np.array(steps, dtype=np.int64)
        chosen = [len(at) - 1]
        clocks = subject.clocks
        if clocks is not None and (clocks.memory.seen or clocks.memory.suspected is not None):
            before = np.flatnonzero(at <= clocks.copy_free_until)
            chosen = [*before[-1:], *(last for last in chosen if last not in before[-1:])]
        shown = tuple(
            self.examples(subject, int(at[k]), {key: one[k] for key, one in measurements.items()}) for k in chosen
        )
        return ExamplesInfo(at, subject.clocks, shown, subject.rule.is_image)

    def examples(self, subject: Subject, step: int, measured: Mapping[str, Any]) -> Examples:
        rows = measured["samples"], measured["nearest"]
        texts: list[tuple[str, ...]] = []
        if subject.rule.is_text:
            texts = [tuple(texts_of(subject.rule, some, other)) for some, other in (rows, rows[::-1])]
        return Examples(step, *rows, measured["copied"], float(measured["copy_rate"][0]), *texts)


@dataclass(frozen=True)
class ExamplesProbe(Probe):
    subject: Subject
    most: int

    def measure(self, step: int) -> Arrays:
        decoded, outcome = self.subject.judged(step)
        shown = decoded.symbols[: self.most]
        train = self.subject.evaluator.train
        nearest = train[self.nearest_rows(shown, train)]
        kind = np.uint8 if self.subject.rule.symbols <= 256 else np.int32
        return {
            "samples": shown.cpu().numpy().astype(kind),
            "nearest": nearest.cpu().numpy().astype(kind),
            "copied": outcome.copied[: self.most].cpu().numpy(),
            "copy_rate": np.array([float(outcome.copied.double().mean())]),
        }

    def nearest_rows(self, rows: Tensor, train: Tensor) -> Tensor:
        """The index of each row's nearest training row: by pixels, or by the number of different symbols."""
        if self.subject.rule.is_image:
            return ImageNeighbours(train).two_nearest(rows).row[:, 0]
        flat = train.flatten(1)
        return torch.stack([(flat != row.flatten()).sum(dim=1).argmin() for row in rows])


def texts_of(rule: Rule, rows: npt.NDArray[Any], others: npt.NDArray[Any]) -> Iterator[str]:
    """Rows as text, with the longest run that each shares with its other text between [[ and ]]."""
    for row, other in zip(rows.astype(np.int64), others.astype(np.int64), strict=True):
        run = SuffixArray([other]).longest_runs([row])
        start = max(0, int(run.starts[0]))
        parts = np.split(row, [start, start + int(run.lengths[0])])
        before, common, after = (rule.as_text(torch.from_numpy(part)[None])[0] if len(part) else "" for part in parts)
        yield f"{before}[[{common}]]{after}" if common else before + after
