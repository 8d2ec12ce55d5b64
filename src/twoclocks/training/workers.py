"""Copies of this process that each compute the gradient of a part of every batch.

Small networks make many small operations. Threads of Python hold each other up between them, since one at a time may
start an operation; processes do not. A copy needs no data: it draws the whole batch of a step from (seed, step), as
this process does, and takes its part. Weights and gradients lie in memory that all of them see.

A copy has nothing that could be lost. So whatever happens to one, it is killed, and its part can be computed here.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import mmap
import os
import select
import signal
import struct
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from twoclocks.kernels.cpu_functions import product
from twoclocks.training.memory_plan import ALIGNMENT, aligned

Gradients = Sequence[Tensor | None]
Result = tuple[float, Gradients]
Work = Callable[[int, int], Result]  # (number of the step, part) to its loss and gradients
NUMBER, LENGTH = struct.Struct("<q"), struct.Struct("<I")
START_SECONDS = 10  # that a copy may take until it answers for the first time
WATCHED = 0.001  # seconds for which a process stays awake when it waits: about what passes between two steps
PR_SET_PDEATHSIG = 1  # of Linux's prctl: a signal that a process gets when the thread that made it ends


def obstacle() -> str:
    """Why this process cannot be copied safely; empty where it can."""
    if sys.platform != "linux":
        return "not on Linux"
    if torch.accelerator.is_available():  # torch starts threads for its gradients then, which a copy would lack
        return "an accelerator is visible"
    if threading.current_thread() is not threading.main_thread():  # whose end is that of its copies
        return "not in the main thread"
    return ""


def shared_memory(like: Sequence[Tensor]) -> list[Tensor]:
    """Zeros of these shapes and types that this process and its later copies see alike."""
    sizes = [aligned(tensor.nbytes) for tensor in like]
    memory = mmap.mmap(-1, max(ALIGNMENT, sum(sizes)))
    starts = itertools.accumulate(sizes, initial=0)
    return [
        torch.frombuffer(memory, dtype=one.dtype, count=one.numel(), offset=start).view(one.shape)
        if one.numel()
        else torch.empty(one.shape, dtype=one.dtype)
        for one, start in zip(like, starts, strict=False)
    ]


def share(parameters: Sequence[Tensor]) -> None:
    """Move the parameters to shared memory, with the values that they have."""
    with torch.no_grad():
        for parameter, memory in zip(parameters, shared_memory(parameters), strict=True):
            parameter.data = memory.copy_(parameter)


class WorkerError(Exception):
    """A copy did not compute its part, for the reason that is given."""


@dataclass(frozen=True)
class Worker:
    """A copy of this process, and how it is spoken to."""

    process: int
    orders: int  # descriptor of a pipe: numbers of steps
    replies: int  # descriptor of a pipe: losses, or what went wrong
    gradients: Sequence[Tensor]

    def begin(self, step: int) -> None:
        """Let it compute its part of a step; if it has ended, its result will say so."""
        with suppress(BrokenPipeError):
            os.write(self.orders, NUMBER.pack(step))

    def result(self, seconds: float) -> Result:
        """The loss of its part and its gradients."""
        reply = self.reply(seconds)
        if "error" in reply:
            raise WorkerError(reply["error"])
        pairs = zip(self.gradients, reply["present"], strict=True)
        return reply["loss"], [one if there else None for one, there in pairs]

    def reply(self, seconds: float) -> Any:
        (length,) = LENGTH.unpack(self.read(LENGTH.size, seconds))
        return json.loads(self.read(length, seconds))

    def read(self, count: int, seconds: float) -> bytes:
        """So many bytes; seconds in which this process itself was stopped do not count."""
        ready = readable(self.replies)
        found, waited = b"", 0.0
        watch(ready)
        while len(found) < count:
            if ready.poll(1000 * min(1.0, seconds)):
                if not (more := os.read(self.replies, count - len(found))):
                    raise WorkerError("it has ended, perhaps for lack of memory")
                found += more
            elif (waited := waited + min(1.0, seconds)) >= seconds:
                raise WorkerError(f"no answer in {seconds:.0f} seconds")
        return found

    def end(self) -> None:
        """Kill it and wait for its end."""
        os.close(self.orders)
        os.close(self.replies)
        with suppress(ChildProcessError):  # somebody else has waited for it
            if os.waitpid(self.process, os.WNOHANG) == (0, 0):
                os.kill(self.process, signal.SIGKILL)
                os.waitpid(self.process, 0)


class Workers:
    """``count`` copies of this process, which end with it, with this object, or when one of them fails."""

    def __init__(self, count: int, like: Sequence[Tensor], work: Work) -> None:
        """``work`` computes part 1, 2, … in the copies; ``like`` are tensors of the gradients' shapes."""
        self.count = count
        self.members: list[Worker] = []
        self.close = weakref.finalize(self, end_workers, self.members)
        self.ready = True  # false while a step was begun whose results were not read
        self.failure = ""  # why there are no copies any more
        try:
            for part in range(1, count + 1):
                start_worker(self.members, part, shared_memory(like), work)
            for worker in self.members:
                worker.reply(START_SECONDS)
        except (WorkerError, OSError) as error:
            self.give_up(str(error))
        except BaseException:
            self.close()
            raise

    def give_up(self, reason: str) -> None:
        self.failure = self.failure or reason
        self.close()

    def begin(self, step: int) -> None:
        self.ready = False
        for worker in self.members:
            worker.begin(step)

    def results(self, seconds: float) -> list[Result | None]:
        """Of each part of the step that was begun; they are overwritten by the next step. None: it failed."""
        found: list[Result | None] = [None] * self.count
        for place, worker in enumerate(self.members):
            try:
                found[place] = worker.result(seconds)
            except WorkerError as error:
                self.failure = self.failure or str(error)
        if self.failure:
            self.give_up(self.failure)
        self.ready = not self.failure
        return found


def end_workers(members: list[Worker]) -> None:
    while members:
        members.pop().end()


def start_worker(members: list[Worker], part: int, gradients: Sequence[Tensor], work: Work) -> None:
    """Copy this process and add the copy to ``members``.

    Signals are for the run's own process, which ends its copies. None may arrive before the copy ignores them, nor
    before this process knows of the copy.
    """
    descriptors = [*os.pipe(), *os.pipe()]
    orders, to_worker, from_worker, replies = descriptors
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: a copy that cannot work does not answer
            process = os.fork()
        if process == 0:
            obey(parent, part, orders, replies, gradients, work)
        members.append(Worker(process, to_worker, from_worker, gradients))
        descriptors = [orders, replies]  # those of the copy
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def obey(parent: int, part: int, orders: int, replies: int, gradients: Sequence[Tensor], work: Work) -> NoReturn:
    """Compute a part of each step that is asked for, until the other end of the pipe is closed."""
    try:
        end_with(parent)
        ignore_signals()
        close_all_but(orders, replies)
        torch.set_num_threads(1)
        torch.manual_seed((torch.initial_seed() + part) % 2**63)  # for networks that draw from torch's own stream
        try_out()
        send(replies, {})
        ready = readable(orders)
        while True:
            watch(ready)
            if len(order := os.read(orders, NUMBER.size)) != NUMBER.size:
                break
            send(replies, answer(part, NUMBER.unpack(order)[0], gradients, work))
    finally:
        os._exit(0)  # without the exit handlers of the process that this is a copy of


def readable(descriptor: int) -> select.poll:
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    return ready


def watch(ready: select.poll) -> None:
    """Return when there is something to read, or after a short time: a process that sleeps takes long to wake up."""
    end = time.perf_counter() + WATCHED
    while not ready.poll(0) and time.perf_counter() < end:
        os.sched_yield()


def end_with(parent: int) -> None:
    """Be killed when the run's process ends, however it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended before that
        os._exit(0)


def ignore_signals() -> None:
    """Ignore what the run's process handles itself."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)) or number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def try_out() -> None:
    """Use what training uses. If another thread held a lock of it at the moment of the copy, this waits for ever."""
    x = torch.ones(3, 5, requires_grad=True)
    (x @ torch.ones(5, 7)).sum().backward()
    product(torch.ones(3, 5), torch.ones(7, 5))


def send(replies: int, reply: dict[str, Any]) -> None:
    message = json.dumps(reply).encode()
    os.write(replies, LENGTH.pack(len(message)) + message)


def answer(part: int, step: int, gradients: Sequence[Tensor], work: Work) -> dict[str, Any]:
    """The loss of a part and which gradients it has, which are put where the run reads them; or why there are none."""
    try:
        loss, found = work(step, part)
        present = [one is not None for one in found]
        targets = [target for target, there in zip(gradients, present, strict=True) if there]
        if targets:
            torch._foreach_copy_(targets, [one for one in found if one is not None])
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"loss": loss, "present": present}


def close_all_but(*needed: int) -> None:
    """Close what was inherited: other copies' pipes, locks and files of the run; standard streams stay."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        if (descriptor := int(entry.name)) > 2 and descriptor not in needed:
            with suppress(OSError):  # the one that listed them
                os.close(descriptor)
