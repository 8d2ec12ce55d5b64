"""τ_gen: when samples of data without a rule are nearly as good as they get before copying begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twoclocks.clocks.onset import Numbers, Onset, definition_of, gap_onset


@dataclass(frozen=True)
class Quality:
    """A number per evaluation that is low when samples are good: a Fréchet distance, or the loss on held-out data."""

    name: str
    values: Numbers
    errors: Numbers  # standard errors over the evaluation's samples
    is_loss: bool = False  # a loss ends above 0, however good the model: its factors are nearer to 1


def generation_onset(
    steps: Numbers, quality: Quality, memory: Onset, factor: float, sustain: int, confidence: float
) -> Onset | None:
    """When the quality falls below ``factor`` times its best value before copying, to stay there.

    Only evaluations count that come before copies are seen: a model that copies has perfect samples. None where fewer
    than ``sustain`` evaluations come before, and where no evaluation is worse: a model that never improved, or was not
    evaluated early, has no onset. While no copying is seen, the best value may still improve: then the onset
    is that of the run so far.

    >>> from twoclocks.clocks.onset import Onset
    >>> later = Onset(500, 600, "observed")
    >>> loss = Quality("held-out loss", [1.0, 0.5, 0.22, 0.21, 0.2, 0.4], [0.01] * 6)
    >>> str(generation_onset([100, 200, 300, 400, 500, 600], loss, later, factor=1.2, sustain=3, confidence=0))
    '200–300'
    """
    step, value, error = (np.asarray(numbers, dtype=np.float64) for numbers in (steps, quality.values, quality.errors))
    end = memory.lower if memory.suspected is None else min(memory.lower, memory.suspected[0])
    before = step <= end if memory.seen or memory.suspected is not None else np.ones(len(step), dtype=bool)
    if before.sum() < sustain:
        return None
    threshold = factor * float(value[before].min())
    found = gap_onset(step[before], -value[before], error[before], -threshold, sustain, confidence)
    if found.status == "left-censored":
        return None
    what = f"{quality.name} below {factor:g} times its best before copying"
    return found.defined(definition_of(what, sustain, confidence))
