"""Too little address space (``ulimit -v``, a batch system's memory limit): one line instead of a crash or a hang.

Libraries fail in many ways when they cannot be loaded or cannot start their threads. OpenBLAS, a part of numpy and of
scipy, even waits for ever or ends the process. So the limit is compared with what the libraries need before they are
imported, and what they still raise becomes one line.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from twoclocks.core.errors import UserError
from twoclocks.core.memory import address_space

# Address space in MB that was needed with one thread (torch for CPUs; a build for GPUs needs far more).
NUMPY = 200  # numpy and scipy
TORCH = 1000  # a small run
PER_THREAD = 80  # for every further thread: OpenBLAS of numpy and of scipy reserve 40 each
WORDS = ("failed to map segment", "cannot allocate memory", "bad_alloc", "start new thread", "without exception set")


def check_address_space(needed: int) -> None:
    """UserError if ``ulimit -v`` is below the ``needed`` MB (for one thread) of what is imported next."""
    limit, threads = limit_in_mb(), blas_threads()
    needed += PER_THREAD * (threads - 1)
    if limit is not None and limit < needed:
        fewer = ", or set OMP_NUM_THREADS=1" if threads > 1 else ""
        raise UserError(f"memory: ulimit -v is {limit:,} MB; about {needed:,} MB are needed; raise it{fewer}")


@contextlib.contextmanager
def memory_errors_as_user_errors() -> Iterator[None]:
    """Turn what libraries raise for lack of memory, also while they are imported, into a UserError."""
    try:
        yield
    except (MemoryError, ImportError, OSError, RuntimeError, SystemError) as error:
        lack = isinstance(error, MemoryError) or any(word in str(error).lower() for word in WORDS)
        if isinstance(error, UserError) or not lack:
            raise
        limit = limit_in_mb()
        why = "this machine has too little" if limit is None else f"ulimit -v is {limit:,} MB, which is too little"
        fix = "use smaller settings or fewer runs at a time" if limit is None else "raise it"
        raise UserError(f"memory: {why} for this command ({type(error).__name__}); {fix}") from error


def limit_in_mb() -> int | None:
    """The limit of this process's address space; None: there is none."""
    return next((limit >> 20 for limit in address_space()), None)


def blas_threads() -> int:
    """Threads that OpenBLAS starts when it is loaded: one per core, or fewer where the environment says so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdecimal() and int(asked) > 0 else cores
