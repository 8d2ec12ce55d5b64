"""Lengths of verbatim runs: what samples share with the training set, beside what held-out texts share with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import SettingError, UserError
from twoclocks.monitor.criteria.verbatim import VerbatimMatcher
from twoclocks.monitor.inputs import Shown

Lengths = npt.NDArray[np.int64]
LEVELS = (0.5, 0.9, 0.99, 1.0)  # quantiles that are shown; 1 is the longest run


@dataclass(frozen=True)
class RunLengths:
    """The longest run of tokens that each text shares with a training text: the distribution for two sets of texts.

    >>> lengths = RunLengths(np.array([3, 4, 4, 70]), np.array([2, 3, 4, 5]), tokens=50)
    >>> lengths.quantiles((0.5, 1)), lengths.longer_than_held_out
    ({0.5: (4, 3), 1: (70, 5)}, 0.25)
    >>> print(lengths)
    longest shared run in tokens, samples (held-out): median 4 (3), 90% 70 (5), 99% 70 (5), longest 70 (5)
    """

    samples: Lengths  # (n,), in tokens; 0 where no token is shared
    held_out: Lengths  # (m,)
    tokens: int  # length from which on a run counts as a copy

    def quantiles(self, levels: Sequence[float] = LEVELS) -> dict[float, tuple[int, int]]:
        """For each level, the run length of samples and of held-out texts: lengths that occur, not means of two."""
        if not all(isinstance(level, int | float) and 0 <= level <= 1 for level in levels):
            raise SettingError("levels", Shown(levels), "use numbers between 0 and 1")
        both = [np.quantile(values, levels, method="inverted_cdf") for values in (self.samples, self.held_out)]
        return {level: (int(a), int(b)) for level, a, b in zip(levels, *both, strict=True)}

    @property
    def copied(self) -> tuple[float, float]:
        """Part of the samples and of the held-out texts whose run counts as a copy."""
        return float((self.samples >= self.tokens).mean()), float((self.held_out >= self.tokens).mean())

    @property
    def longer_than_held_out(self) -> float:
        """Part of the samples whose run is longer than that of every held-out text."""
        return float((self.samples > self.held_out.max()).mean())

    def as_dict(self) -> dict[str, float]:
        """The quantiles as numbers with plain names, for a logger."""
        named = {f"run_{100 * level:g}%": pair for level, pair in self.quantiles().items()}
        samples = {name: float(pair[0]) for name, pair in named.items()}
        return samples | {f"{name}_held_out": float(pair[1]) for name, pair in named.items()}

    def __str__(self) -> str:
        names = {0.5: "median", 1.0: "longest"}
        parts = [f"{names.get(level, f'{level:.0%}')} {a} ({b})" for level, (a, b) in self.quantiles().items()]
        return f"longest shared run in tokens, samples (held-out): {', '.join(parts)}"


def run_lengths_of(matcher: Any, samples: Any, held_out: Any) -> RunLengths:
    """Run lengths of samples and held-out texts in a prepared training set; UserError for another criterion."""
    if not isinstance(matcher, VerbatimMatcher):
        raise UserError(
            "run_lengths: the copies of this monitor are not runs of tokens; use Monitor(copies=Verbatim(…))"
        )
    ours, theirs = (matcher.longest_runs(texts).lengths for texts in (samples, held_out))
    return RunLengths(ours, theirs, matcher.criterion.tokens)
