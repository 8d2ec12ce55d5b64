"""Execute several runs in one process, update by update; each has its own directory and ends by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from twoclocks.models import MODELS
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
from twoclocks.runs.joint_samples import SamplesAhead, share_samples
from twoclocks.runs.session import CHECKPOINT_SECONDS, Session
from twoclocks.runs.settings import RunSettings
from twoclocks.training.joint import Batched, Due, Failures, InTurn, Stack
from twoclocks.training.stopping import StoppedError, StopRequest
from twoclocks.training.streams import Streams

log = logging.getLogger("twoclocks")

Ending = BaseException | None  # how a run ended: None if it is finished
Form = Literal["in turn", "streams", "batched"]  # how the updates of all runs are made; see ``training/joint.py``
JointStep = Callable[[Due], Failures]
Loop = Generator[int, None, None]  # the training of a run, which yields the number of every update


@dataclass(frozen=True)
class Member:
    """One of the runs that are trained together: its settings and its directory."""

    settings: RunSettings
    out: Path


def run_together(
    members: Sequence[Member], *, form: Form | None = None, checkpoint_seconds: float = CHECKPOINT_SECONDS
) -> list[Ending]:
    """Train runs in one process, and return how each of them ended.

    Each run is stored, continued and stopped as ``run`` does it. ``form``: by default in streams on a GPU, in turn on
    the CPU; both give what ``run`` gives. Batched runs must differ in seeds, data and rates alone.
    """
    endings: dict[int, Ending] = {}
    form = form or ("streams" if members[0].settings.training.on_gpu else "in turn")
    with StopRequest() as stop, named_memory_errors(), threads_restored(), ExitStack() as stack:
        opened: dict[int, tuple[Session, ExitStack]] = {}
        for place, member in enumerate(members):
            own = stack.enter_context(ExitStack())  # closed when this run ends: then others may write to its folder
            try:
                # A stack needs the textbook's operations: fused kernels know one set of weights.
                session = own.enter_context(
                    open_member(member, stop, form == "batched", checkpoint_seconds, len(members))
                )
            except Exception as error:  # another process writes there, it does not fit, …
                endings[place] = named(error)
            else:
                if session is not None:
                    opened[place] = session, own
        sessions = [session for session, _ in opened.values()]
        locks = [own for _, own in opened.values()]
        if sessions:
            step, streams = joint_step([session.experiment for session in sessions], form)
            found = train_together(sessions, step, streams, lambda row: locks[row].close())
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


def joint_step(experiments: Sequence[Experiment], form: Form) -> tuple[JointStep, Streams]:
    """What makes the updates of all runs, and their streams; to be called when their checkpoints are loaded."""
    count, on_gpu = len(experiments), experiments[0].training.on_gpu
    if form == "batched" and count > 1 and (batched := batched_step(experiments)) is not None:
        return batched, Streams(count, on_gpu=False)
    steps = [one.make_step() for one in experiments]
    streams = Streams(count, on_gpu and form != "in turn")
    update = InTurn(steps, streams)
    return SamplesAhead(experiments, update) if form == "streams" else update, streams


def batched_step(experiments: Sequence[Experiment]) -> Batched | None:
    """One computation for the updates of all runs; None, and a line in the log, if that would not be theirs."""
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
    return None


def training(session: Session) -> Loop:
    """Train a run; yields the number of every update, which the caller makes."""
    with session.recorded():
        yield from session.updates()


def train_together(
    sessions: Sequence[Session],
    step: JointStep,
    streams: Streams,
    release: Callable[[int], None] = lambda row: None,
) -> list[Ending]:
    """Train all runs to their ends, one update of each at a time; a run that ends leaves the others alone.

    ``release(row)`` is called when a run has ended and everything of it is stored.
    """
    loops = {row: training(session) for row, session in enumerate(sessions)}
    endings: list[Ending] = [None] * len(sessions)

    def move(row: int, how: Callable[[Loop], int]) -> dict[int, int]:
        """Move a run on; returns its row and the number of its next update, or nothing if it ended."""
        try:
            with streams.of(row):
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
        for row, loop in loops.items():
            with suppress(BaseException), streams.of(row):
                fail(error, loop)
        raise
    return endings


def fail(error: BaseException, loop: Loop) -> int:
    """Raise an error inside of the training of a run, where it is recorded."""
    return loop.throw(error)
