"""Copies of this process that each compute the gradient of a part of every batch.

Small networks make many small operations. Threads of Python hold each other up between them, since one at a time may
start an operation; processes do not. A copy needs no data: it draws the whole batch of a step from (seed, step), as
this process does, and takes its part. Weights and gradients lie in memory that all of them see.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import signal
import struct
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

Gradients = Sequence[Tensor | None]
Work = Callable[[int, int], tuple[float, Gradients]]  # (number of the step, part) to its loss and gradients
ALIGNMENT = 64  # bytes
NUMBER, LENGTH = struct.Struct("<q"), struct.Struct("<I")


def can_fork() -> bool:
    """Whether a process can be copied while it uses torch, as torch's own data loader does it: on Linux."""
    return sys.platform == "linux"


def shared_memory(like: Sequence[Tensor]) -> list[Tensor]:
    """Zeros of these shapes and types that this process and its later copies see alike."""
    sizes = [-(-tensor.nbytes // ALIGNMENT) * ALIGNMENT for tensor in like]
    memory = mmap.mmap(-1, max(ALIGNMENT, sum(sizes)))
    starts = itertools.accumulate(sizes, initial=0)
    return [
        torch.frombuffer(memory, dtype=one.dtype, count=one.numel(), offset=start).view(one.shape)
        for one, start in zip(like, starts, strict=False)
    ]


def share(parameters: Sequence[Tensor]) -> None:
    """Move the parameters to shared memory, with the values that they have."""
    with torch.no_grad():
        for parameter, memory in zip(parameters, shared_memory(parameters), strict=True):
            parameter.data = memory.copy_(parameter)


@dataclass(frozen=True)
class Worker:
    """A copy of this process, and how it is spoken to."""

    process: int
    orders: int  # descriptor of a pipe: numbers of steps
    replies: int  # descriptor of a pipe: losses, or what went wrong
    gradients: Sequence[Tensor]

    def begin(self, step: int) -> None:
        """Let it compute its part of a step."""
        try:
            os.write(self.orders, NUMBER.pack(step))
        except BrokenPipeError:
            raise self.lost() from None

    def result(self) -> tuple[float, Gradients]:
        """The loss of its part and its gradients; raises what it raised."""
        (length,) = LENGTH.unpack(self.read(LENGTH.size))
        reply = json.loads(self.read(length))
        if "error" in reply:
            raise (MemoryError if reply["error"] == "MemoryError" else RuntimeError)(reply["message"])
        pairs = zip(self.gradients, reply["present"], strict=True)
        return reply["loss"], [one if there else None for one, there in pairs]

    def read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = os.read(self.replies, count - len(found))
            if not more:
                raise self.lost()
            found += more
        return found

    def lost(self) -> RuntimeError:
        return RuntimeError(
            f"process {self.process}, which computed a part of each batch, has ended, perhaps for lack of memory; "
            "repeat the command to go on, with training.threads 1 if it happens again"
        )


class Workers:
    """``count`` copies of this process, which end with it, with this object, or after an error in a step."""

    def __init__(self, count: int, like: Sequence[Tensor], work: Work) -> None:
        """``work`` computes part 1, 2, … in the copies; ``like`` are tensors of the gradients' shapes."""
        self.members: list[Worker] = []
        self.close = weakref.finalize(self, end_workers, self.members)
        self.ready = True  # false while a step was begun whose results were not read, and after an error
        for part in range(1, count + 1):
            self.members.append(start_worker(part, shared_memory(like), work))

    def begin(self, step: int) -> None:
        self.ready = False
        for worker in self.members:
            worker.begin(step)

    def results(self) -> list[tuple[float, Gradients]]:
        """Loss and gradients of each part of the step that was begun; they are overwritten by the next step."""
        try:
            found = [worker.result() for worker in self.members]
        except BaseException:  # some may still be computing, or have been read in part
            self.close()
            raise
        self.ready = True
        return found


def start_worker(part: int, gradients: Sequence[Tensor], work: Work) -> Worker:
    orders, to_worker = os.pipe()
    from_worker, replies = os.pipe()
    # Signals are for the run's own process: it ends its workers. None may arrive between the fork and their being
    # ignored.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, none of which holds a lock of ours
            process = os.fork()
        if process == 0:
            obey(part, orders, replies, gradients, work)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(orders)
    os.close(replies)
    return Worker(process, to_worker, from_worker, gradients)


def end_workers(members: Sequence[Worker]) -> None:
    """Close the pipes, upon which the workers end, and wait for them."""
    for worker in members:
        os.close(worker.orders)
        os.close(worker.replies)
    for worker in members:
        with suppress(ChildProcessError):  # somebody else has waited for it
            os.waitpid(worker.process, 0)


def obey(part: int, orders: int, replies: int, gradients: Sequence[Tensor], work: Work) -> NoReturn:
    """Compute a part of each step that is asked for, until the other end of the pipe is closed."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
        close_all_but(orders, replies)
        torch.set_num_threads(1)
        torch.manual_seed(torch.initial_seed() + part)  # for networks that draw from torch's own stream
        while len(order := os.read(orders, NUMBER.size)) == NUMBER.size:
            reply = json.dumps(answer(part, NUMBER.unpack(order)[0], gradients, work)).encode()
            os.write(replies, LENGTH.pack(len(reply)) + reply)
        status = 0
    except BrokenPipeError:  # the run has ended meanwhile
        status = 0
    finally:
        os._exit(status)  # without the exit handlers of the process that this is a copy of


def answer(part: int, step: int, gradients: Sequence[Tensor], work: Work) -> dict[str, Any]:
    """The loss of a part and which gradients it has, which are put where the run reads them; or why there are none."""
    try:
        loss, found = work(step, part)
        present = [one is not None for one in found]
        targets = [target for target, there in zip(gradients, present, strict=True) if there]
        if targets:
            torch._foreach_copy_(targets, [one for one in found if one is not None])
    except Exception as error:
        return {"error": type(error).__name__, "message": f"{error} ({type(error).__name__} in a part of the batch)"}
    return {"loss": loss, "present": present}


def close_all_but(*needed: int) -> None:
    """Close what was inherited: other workers' pipes, locks and files of the run; standard streams stay."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        if (descriptor := int(entry.name)) > 2 and descriptor not in needed:
            with suppress(OSError):  # the one that listed them
                os.close(descriptor)
