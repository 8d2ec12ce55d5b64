"""Execute several runs in one process, step by step together; each has its own directory and ends by itself."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from twoclocks.core.errors import UserError
from twoclocks.objectives.base import sample
from twoclocks.runs.assembly import Experiment
from twoclocks.runs.execution import (
    OutOfMemoryError,
    build_experiment,
    choose,
    is_memory_error,
    named_memory_errors,
    open_session,
    threads_restored,
)
from twoclocks.runs.session import CHECKPOINT_SECONDS, Session
from twoclocks.runs.settings import RunSettings
from twoclocks.training.capture import Replayed
from twoclocks.training.joint import Batched, Due, InTurn, Stack
from twoclocks.training.stopping import StoppedError, StopRequest

Ending = BaseException | None  # how a run ended: None if it is finished
LONGEST = 64  # tokens of a text that are generated one by one without a cache
JointStep = Callable[[Due], None]
Loop = Generator[int, None, None]  # the training of a run, which yields the number of every update


@dataclass(frozen=True)
class Member:
    """One of the runs that are trained together: its settings and its directory."""

    settings: RunSettings
    out: Path


def run_together(
    members: Sequence[Member], *, batched: bool | None = None, checkpoint_seconds: float = CHECKPOINT_SECONDS
) -> list[Ending]:
    """Train runs that differ in seeds, data and rates alone, and return how each of them ended.

    Each run is stored, continued and stopped as ``run`` does it. ``batched``: whether one computation makes the updates
    of all; by default on a GPU. Otherwise each makes its own, which on the CPU gives the same bits as ``run``.
    """
    endings: dict[int, Ending] = {}
    with StopRequest() as stop, named_memory_errors(), threads_restored(), ExitStack() as stack:
        experiments: dict[int, Experiment] = {}
        as_one = members[0].settings.training.on_gpu if batched is None else batched
        for place, member in enumerate(members):
            try:
                directory, _ = choose(member.settings, member.out, fork=False)
                if not directory.finished:
                    # Fused kernels know one set of weights.
                    experiments[place] = build_experiment(member.settings, stop, textbook=as_one)
            except UserError as error:
                endings[place] = error
        # Stacked now: whatever refers to the weights from here on, such as a captured sampler, finds them in the stack.
        joint = Stack([one.network for one in experiments.values()]) if as_one and experiments else None
        sessions: dict[int, Session] = {}
        for place, experiment in experiments.items():
            at = members[place].out, stop, lambda progress: None, checkpoint_seconds, len(experiments)
            try:
                session = stack.enter_context(open_session(experiment, *at))
            except UserError as error:  # another process writes there, or the disk is full
                endings[place] = error
            else:
                if session is not None:
                    sessions[place] = session
        if joint is not None:
            share_samples(list(experiments.values()), joint)
        endings |= train_together(sessions, joint_step(experiments, joint))
        stop.check()
    return [endings.get(place) for place in range(len(members))]


def joint_step(experiments: Mapping[int, Experiment], stack: Stack | None) -> JointStep:
    """What makes the updates of all runs; the steps are made at the first call, when checkpoints are loaded."""
    made: list[JointStep] = []
    captures = any(one.training.captures for one in experiments.values())

    def step(due: Due) -> None:
        if not made:
            steps = [one.make_step(captures=stack is None) for one in experiments.values()]
            made.append(InTurn(steps) if stack is None else Batched(steps, stack, captures))
        made[0]({row: due[place] for row, place in enumerate(experiments) if place in due})

    return step


def share_samples(experiments: Sequence[Experiment], stack: Stack) -> None:
    """Let runs draw the samples of their evaluations in one computation; to be called when checkpoints are loaded.

    All are drawn when the first of them asks after an update; the others, which are evaluated at the same step, take
    theirs. Long texts are left out: a network that keeps a cache of the tokens so far is faster alone.
    """
    first = experiments[0]
    if first.objective.levels is None and first.noise.shape[1] > LONGEST:
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


def training(session: Session) -> Loop:
    """Train a run; yields the number of every update, which the caller makes."""
    with session.recorded():
        yield from session.updates()


def train_together(sessions: Mapping[int, Session], step: JointStep) -> dict[int, Ending]:
    """Train all runs to their ends, one update of each at a time; a run that ends leaves the others alone."""
    loops = {place: training(session) for place, session in sessions.items()}
    endings: dict[int, Ending] = {}

    def advance(move: Callable[[Loop], int]) -> dict[int, int]:
        """Move every run on, and return the number of the next update of those that have one."""
        due: dict[int, int] = {}
        for place in list(loops):
            try:
                due[place] = move(loops[place])
            except StopIteration:
                endings[place] = None
            except (Exception, StoppedError) as error:  # a signal reaches each run at its own step
                endings[place] = OutOfMemoryError() if is_memory_error(error) else error
            if place in endings:
                del loops[place]
        return due

    while due := advance(next):
        try:
            step(due)
        except Exception as error:
            advance(partial(fail, error))
    return endings


def fail(error: Exception, loop: Loop) -> int:
    """Raise an error inside of the training of a run, where it is recorded."""
    return loop.throw(error)
