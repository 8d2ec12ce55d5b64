"""Work that one process does and whose result all processes get."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch.distributed as dist

T = TypeVar("T")


def is_first_rank() -> bool:
    """Whether this process is rank 0, or the only one."""
    return not _is_distributed() or dist.get_rank() == 0


def on_first_rank(work: Callable[[], T]) -> T:
    """Calls ``work`` on rank 0 and returns its result on every rank; all ranks must call this.

    If ``work`` raises an error, rank 0 raises it and every other rank raises a RuntimeError with its text: no rank
    waits for a result that does not come.
    """
    if not _is_distributed():
        return work()
    if dist.get_rank() != 0:
        result, problem = _broadcast(None, None)
        if problem is not None:
            raise RuntimeError(f"rank 0: {problem}")
        return result  # type: ignore[return-value]  # rank 0 sent a result of this type
    try:
        result = work()
        _broadcast(result, None)  # nothing is sent if the result cannot be pickled
    except BaseException as error:
        _broadcast(None, f"{type(error).__name__}: {error}")
        raise
    return result


def _is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _broadcast(result: T | None, problem: str | None) -> tuple[T | None, str | None]:
    message = [result, problem]
    dist.broadcast_object_list(message, src=0)
    return message[0], message[1]  # type: ignore[return-value]  # the list has both types
