"""The result of a comparison of twins, as numbers and sentences: do two models agree until they begin to copy?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.analysis.agreement import Agreement, MeanInterval, SharedTimes
from twoclocks.clocks.looks import rate_bounds
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.settings import PLAIN
from twoclocks.clocks.window import Clocks
from twoclocks.core.arrays import Floats
from twoclocks.core.proportion import clopper_pearson
from twoclocks.dissection.view import confidence_words, order_words, plain, when
from twoclocks.evaluation.nearest import ImageDistance, NearestDistance

NAMES = ("A", "B")
TAIL = 0.025  # of pointwise 95% intervals


@dataclass(frozen=True)
class TwinsInfo:
    """The comparison of two twins; axis 0 of what changes with training is the step."""

    steps: npt.NDArray[np.int64]
    labels: tuple[str, str]
    n: int  # training samples of each
    same_start: bool  # whether both have the same initial weights and order of batches
    images: bool  # whether samples are compared as images, by cosine; otherwise as tokens, by equality
    clocks: tuple[Clocks | None, Clocks | None]
    samples: Agreement  # 1 − cosine of samples from the same noise, or the fraction of their tokens that differ
    same: Floats  # (steps,): fraction of the samples that are identical in both
    same_chance: Floats  # (steps,): of samples from different noises
    rows: int  # samples compared
    copies: Floats  # (steps, model, set): fraction of a model's samples that are in A's, in B's training set
    # (steps, model, set): mean number of entries that differ from the nearest sample of the set, or distance of images
    distance: Floats
    distance_error: Floats  # (steps, model, set): standard errors of these means
    chance: float  # fraction of a perfect model's samples that are in a training set of this size
    outputs: Agreement | None = None  # Hellinger distance of the probabilities of tokens
    strings: int = 0  # of neither training set, on which outputs are compared
    confidence: float = 0.95  # of bounds that hold at all evaluations together
    notes: tuple[str, ...] = ()
    cosine: Floats | None = (
        None  # (steps, model, set): real images, mean cosine to the nearest whitened image of the set
    )

    @property
    def real(self) -> bool:
        """Whether samples are real images, compared after whitening."""
        return self.cosine is not None

    @property
    def measure(self) -> str:
        """What the distance between samples is."""
        if not self.images:
            return "part of the tokens that differ"
        return "1 - cosine of whitened images" if self.real else "1 - cosine"

    @property
    def shared(self) -> SharedTimes:
        return shared_times(self.clocks)

    def same_interval(self) -> tuple[Floats, Floats]:
        return clopper_pearson(self.same * self.rows, self.rows, TAIL)

    def copies_interval(self) -> tuple[Floats, Floats]:
        return clopper_pearson(self.copies * self.rows, self.rows, TAIL)

    def leaking(self) -> list[str]:
        """The models that copy the other's training set more often than by chance: a sign of shared data."""
        found = []
        for k, name in enumerate(NAMES):
            hits, trials = self.copies[:, k, 1 - k] * self.rows, np.full(len(self.steps), float(self.rows))
            if (rate_bounds(hits, trials, self.confidence or PLAIN)[0] > self.chance).any():
                found.append(name)
        return found

    def sentences(self) -> list[str]:
        found = [self.start_sentence(), *self.sample_sentences()]
        if self.outputs is not None:
            found += self.output_sentences(self.outputs)
        return [*found, *self.copy_sentences()]

    def start_sentence(self) -> str:
        which = "; ".join(f"{name} is {label}" for name, label in zip(NAMES, self.labels, strict=True))
        start = (
            "Both started from the same weights, so that they agree before training by construction"
            if self.same_start
            else "They started from different weights"
        )
        return f"{which}; they share no training sample ({self.n:,} each). {start}."

    def sample_sentences(self) -> list[str]:
        what = "mean cosine" if self.images else "mean fraction of equal tokens"
        what = f"{what} of whitened images" if self.real else what
        parts = []
        for period, mean, inside in self.periods(self.samples):
            same, chance = self.same[inside].mean(), self.same_chance[inside].mean()
            unrelated = 1 - self.samples.chance[inside].mean()
            ends = f"{1 - mean.high:.3f} to {1 - mean.low:.3f}"
            parts.append(
                f"{period} {1 - mean.mean:.3f} ({ends}; by chance {unrelated:z.3f}), "
                f"with {same:.1%} of them identical (by chance {chance:.2g})"
            )
        first = f"Samples from the same noise, {what}: {'; '.join(parts)}. By chance: samples from different noises."
        return [first, self.parting_words(self.samples, "samples")]

    def output_sentences(self, outputs: Agreement) -> list[str]:
        parts = [
            f"{period} {mean.mean:.3f} ({mean.low:.3f} to {mean.high:.3f}; by chance "
            f"{outputs.chance[inside].mean():.3f})"
            for period, mean, inside in self.periods(outputs)
        ]
        what = f"Outputs on {self.strings:,} valid strings of neither training set, mean Hellinger distance"
        first = f"{what}: {'; '.join(parts)}. By chance: outputs on different strings."
        return [first, self.parting_words(outputs, "outputs")]

    def periods(self, found: Agreement) -> list[tuple[str, MeanInterval, npt.NDArray[np.bool_]]]:
        """Two periods to report: the shared window, or else the closest step; after memory, or else the last step."""
        shared, steps, periods = self.shared, found.steps, []
        if found.window is not None and shared.window is not None:
            inside = (steps >= shared.window[0]) & (steps <= shared.window[1])
            periods.append(("while both windows are open", found.window, inside))
        else:
            periods.append((f"at step {found.closest[-1]:,}", *at(found, steps == found.closest[-1])))
        if found.after is not None:
            periods.append(("after both τ_mem", found.after, steps >= shared.after))
        elif steps[-1] != found.closest[-1]:
            periods.append((f"at the last evaluation, step {steps[-1]:,},", *at(found, steps == steps[-1])))
        return periods

    def parting_words(self, found: Agreement, what: str) -> str:
        begin, end = found.closest
        here, sure = found.parting, confidence_words(self.confidence)
        since = f"closest at step {end:,}" if begin == end else f"closest at steps {begin:,} to {end:,}"
        if here is None:
            return f"Their {what} are {since}; too few evaluations follow to find when they part."
        if not here.seen:
            return f"Their {what} are {since} and do not part after it{sure} ({when(here)})."
        memory = zip(NAMES, self.clocks, strict=True)
        order = "".join(order_words(here, one.memory, f"{name}'s τ_mem") for name, one in memory if one is not None)
        return f"Their {what}, {since}, part{sure} {when(here)}{order}."

    def copy_sentences(self) -> list[str]:
        own, other = (self.copies[-1, [0, 1], order] for order in ([0, 1], [1, 0]))
        low, high = self.copies_interval()
        near, unit = self.distance[-1], "(root mean square)" if self.real else "entries"
        parts = [
            f"{name} {own[k]:.1%} ({low[-1, k, k]:.1%} to {high[-1, k, k]:.1%}) of its own and {other[k]:.1%} of the "
            f"other's training set, {near[k, k]:.2f} and {near[k, 1 - k]:.2f} {unit} from the nearest sample in it"
            for k, name in enumerate(NAMES)
        ]
        leaking, sure = self.leaking(), confidence_words(self.confidence or PLAIN)
        control = (
            f"The control fails: {' and '.join(leaking)} generates samples of the other's training set more often than "
            f"by chance ({self.chance:.2g}){sure}."
            if leaking
            else f"Control: no model generates the other's training samples more often than by chance "
            f"({self.chance:.2g}){sure}."
        )
        return [f"Copies at the last evaluation: {'; '.join(parts)}.", control]

    def numbers(self) -> dict[str, Any]:
        window = self.shared.window
        low, high = self.same_interval()
        pairs = [(k, j) for k in (0, 1) for j in (0, 1)]

        def by_pair(values: Floats) -> dict[str, list[float | None]]:
            return {f"{NAMES[k]} to {NAMES[j]}": plain(values[:, k, j]) for k, j in pairs}

        return {
            "steps": self.steps.tolist(),
            "labels": list(self.labels),
            "same_start": self.same_start,
            "window": None if window is None else [window[0], None if math.isinf(window[1]) else window[1]],
            "tau_mem": [None if one is None else one.memory.as_json() for one in self.clocks],
            "measure": self.measure,
            "samples": self.samples.numbers(),
            "identical": {
                "mean": plain(self.same),
                "low": plain(low),
                "high": plain(high),
                "chance": plain(self.same_chance),
            },
            "hellinger": None if self.outputs is None else {"strings": self.strings, **self.outputs.numbers()},
            "copies": by_pair(self.copies),
            "copy_chance": self.chance,
            ImageDistance.name if self.real else NearestDistance.name: by_pair(self.distance),
            **({} if self.cosine is None else {"nearest_cosine": by_pair(self.cosine)}),
            "control_failed": self.leaking(),
        }


def at(found: Agreement, here: npt.NDArray[np.bool_]) -> tuple[MeanInterval, npt.NDArray[np.bool_]]:
    """The mean and interval of the one evaluation that ``here`` selects."""
    return MeanInterval(float(found.mean[here][0]), float(found.low[here][0]), float(found.high[here][0])), here


def shared_times(clocks: Sequence[Clocks | None]) -> SharedTimes:
    """The steps at which both windows are open, and at which memory has begun in neither and in both."""
    known = [one for one in clocks if one is not None]
    windows = [one.window for one in known if one.window is not None]
    memory: list[Onset] = [one.memory for one in known]
    begin = max((window[0] for window in windows), default=math.inf)
    end = min((window[1] for window in windows), default=0.0)
    return SharedTimes(
        window=(begin, end) if len(windows) == len(clocks) and begin <= end else None,
        learned=max((first_learned(one) for one in known), default=0.0),
        before=min((one.copy_free_until for one in known if one.memory.seen or one.memory.suspected), default=math.inf),
        after=max((one.upper for one in memory), default=math.inf),
    )


def first_learned(clocks: Clocks) -> float:
    """The step at which the first part of the rule is learned, or samples are good; 0 where none is."""
    first = clocks.generation if clocks.generation is not None else clocks.rule
    return min((one.upper for one in (first, *clocks.parts.values()) if one.seen), default=0.0)
