"""Samples of runs that are trained together, drawn for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from twoclocks.objectives.base import sample
from twoclocks.runs.assembly import Experiment
from twoclocks.training.capture import Replayed
from twoclocks.training.joint import Due, Failures, InTurn, Stack

LONGEST = 64  # tokens of a text that are generated one by one without a cache


class SamplesAhead:
    """Updates of each run in its stream; the samples of all runs that are evaluated next are begun at once.

    Otherwise a run's samples would be begun when those of the run before it are drawn and judged.
    """

    def __init__(self, experiments: Sequence[Experiment], update: InTurn) -> None:
        self.experiments, self.update = experiments, update
        self.schedules = [set(one.settings.schedule) for one in experiments]
        self.begun: dict[int, Tensor] = {}  # by place of the run; the GPU may still be drawing them
        for place, one in enumerate(experiments):
            one.joint_samples = partial(self.take, place)

    def __call__(self, due: Due) -> Failures:
        failures = self.update(due)
        self.begun.clear()
        for place, number in due.items():
            if place not in failures and number in self.schedules[place]:
                try:
                    self.begun[place] = self.begin(place)
                except Exception as error:  # of this run alone
                    failures[place] = error
        return failures

    @torch.no_grad()
    def begin(self, place: int) -> Tensor:
        """The samples of the weights of now."""
        one = self.experiments[place]
        trains = one.network.training
        one.network.eval()
        with self.update.streams.of(place):
            found = one.own_samples()
        one.network.train(trains)
        return found

    def take(self, place: int) -> Tensor:
        """The samples of a run, for the evaluation for which they were begun; later, or of other weights: drawn now."""
        begun = self.begun.pop(place, None)
        return begun if begun is not None else self.experiments[place].own_samples()


def share_samples(experiments: Sequence[Experiment], stack: Stack) -> None:
    """Let runs whose weights are stacked draw the samples of their evaluations in one computation.

    All are drawn when the first of them asks after an update; the others, which are evaluated at the same step, take
    theirs. Runs that stand at different steps draw their own. So do runs on long texts: a network that keeps a cache of
    the tokens so far is faster alone.
    """
    first = experiments[0]
    is_long = first.objective.levels is None and first.noise.shape[1] > LONGEST
    if is_long or len({one.loop.step for one in experiments}) > 1:
        return
    noise = torch.stack([one.noise for one in experiments])
    work = partial(stack.map, partial(sample, first.objective), stack.sampled, noise)
    draw = Replayed(work, first.training.captures)
    drawn: dict[int, Tensor] = {}  # by the number of updates before; one entry

    def part(place: int) -> Tensor:
        if stack.version not in drawn:
            drawn.clear()
            drawn[stack.version] = draw()
        return drawn[stack.version][place]

    for place, one in enumerate(experiments):
        one.joint_samples = partial(part, place)
