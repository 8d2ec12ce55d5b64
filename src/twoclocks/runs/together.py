"""Execute several runs in one process, step by step together; each has its own directory and ends by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from twoclocks.models import MODELS
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
from twoclocks.training.joint import Batched, Due, Failures, InTurn, Stack
from twoclocks.training.stopping import StoppedError, StopRequest

log = logging.getLogger("twoclocks")

Ending = BaseException | None  # how a run ended: None if it is finished
LONGEST = 64  # tokens of a text that are generated one by one without a cache
JointStep = Callable[[Due], Failures]
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
    as_one = members[0].settings.training.on_gpu if batched is None else batched
    with StopRequest() as stop, named_memory_errors(), threads_restored(), ExitStack() as stack:
        opened: dict[int, tuple[Session, ExitStack]] = {}
        for place, member in enumerate(members):
            own = stack.enter_context(ExitStack())  # closed when this run ends: then others may write to its folder
            try:
                # Fused kernels know one set of weights.
                session = own.enter_context(open_member(member, stop, as_one, checkpoint_seconds, len(members)))
            except Exception as error:  # another process writes there, it does not fit, …
                endings[place] = named(error)
            else:
                if session is not None:
                    opened[place] = session, own
        sessions = [session for session, _ in opened.values()]
        locks = [own for _, own in opened.values()]
        if sessions:
            step = joint_step([session.experiment for session in sessions], as_one)
            found = train_together(sessions, step, lambda row: locks[row].close())
            endings |= dict(zip(opened, found, strict=True))
    return [endings.get(place) for place in range(len(members))]


@contextmanager
def open_member(
    member: Member, stop: StopRequest, textbook: bool, checkpoint_seconds: float, count: int
) -> Iterator[Session | None]:
    """The session of one run; None if the run is finished."""
    directory, _ = choose(member.settings, member.out, fork=False)
    if directory.finished:
        yield None
        return
    experiment = build_experiment(member.settings, stop, textbook)
    with open_session(experiment, member.out, stop, lambda progress: None, checkpoint_seconds, count) as session:
        yield session


def named(error: BaseException) -> BaseException:
    """The error, or one that says what to make smaller if memory ran out."""
    return OutOfMemoryError() if is_memory_error(error) else error


def joint_step(experiments: Sequence[Experiment], batched: bool) -> JointStep:
    """What makes the updates of all runs; to be called when their checkpoints are loaded."""
    if batched and len(experiments) > 1:
        stack = Stack([one.network for one in experiments])
        for one in experiments:
            one.weights_moved()
        steps = [one.make_step(captures=False) for one in experiments]
        step = Batched(steps, stack, captures=experiments[0].training.captures)
        if not (reason := step.objection()):
            share_samples(experiments, stack)
            return step
        name = MODELS.name_of(experiments[0].settings.model)
        log.warning(f"model.name: {name!r} cannot be trained batched ({reason}); each run makes its own updates")
    return InTurn([one.make_step() for one in experiments])


def share_samples(experiments: Sequence[Experiment], stack: Stack) -> None:
    """Let runs draw the samples of their evaluations in one computation.

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


def training(session: Session) -> Loop:
    """Train a run; yields the number of every update, which the caller makes."""
    with session.recorded():
        yield from session.updates()


def train_together(
    sessions: Sequence[Session], step: JointStep, release: Callable[[int], None] = lambda row: None
) -> list[Ending]:
    """Train all runs to their ends, one update of each at a time; a run that ends leaves the others alone.

    ``release(row)`` is called when a run has ended and everything of it is stored.
    """
    loops = {row: training(session) for row, session in enumerate(sessions)}
    endings: list[Ending] = [None] * len(sessions)

    def move(row: int, how: Callable[[Loop], int]) -> dict[int, int]:
        """Move a run on; returns its row and the number of its next update, or nothing if it ended."""
        try:
            return {row: how(loops[row])}
        except StopIteration:
            pass
        except (Exception, StoppedError) as error:  # a signal reaches each run at its own step
            endings[row] = named(error)
        del loops[row]
        release(row)
        return {}

    try:
        while loops:
            due = {row: number for one in list(loops) for row, number in move(one, next).items()}
            for row, error in (step(due) if due else {}).items():
                move(row, partial(fail, error))
    except BaseException as error:  # such as a second Ctrl-C: each run stores that it was interrupted
        for loop in loops.values():
            with suppress(BaseException):
                fail(error, loop)
        raise
    return endings


def fail(error: BaseException, loop: Loop) -> int:
    """Raise an error inside of the training of a run, where it is recorded."""
    return loop.throw(error)
