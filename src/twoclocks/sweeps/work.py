"""Run one job in a worker process, on any executor: its cells, from settings to finished run directories."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from twoclocks.core.config import build
from twoclocks.core.errors import UserError
from twoclocks.core.plugins import import_file
from twoclocks.runs.execution import OutOfMemoryError, run
from twoclocks.runs.memory import TooLargeError
from twoclocks.runs.settings import RunSettings
from twoclocks.runs.together import Member, run_together
from twoclocks.store.lock import LockedError
from twoclocks.training.errors import DivergedError
from twoclocks.training.stopping import StoppedError


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job and return its outcome (finished, diverged, memory, busy, stopped or failed) and the reason, if any.

    For several cells, ``members`` has outcome and reason of each by its key.
    """
    try:
        for record in job.get("imports", ()):
            import_file(record["path"], "imports", record["sha256"])
        cells = [job, *job.get("others", ())]
        members = [Member(build(RunSettings, one["settings"]), Path(one["out"])) for one in cells]
        if len(members) == 1:
            run(members[0].settings, members[0].out, checkpoint_seconds=job["checkpoint_seconds"])
            return {"outcome": "finished"}
        endings = run_together(members, form=job.get("form"), checkpoint_seconds=job["checkpoint_seconds"])
        found = {one["key"]: describe(ending) for one, ending in zip(cells, endings, strict=True)}
        return {**found[job["key"]], "members": found}
    except (Exception, StoppedError) as error:
        return describe(error)


KNOWN: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((DivergedError,), "diverged"),
    ((OutOfMemoryError, TooLargeError), "memory"),
    ((LockedError,), "busy"),
    ((StoppedError,), "stopped"),
    ((UserError,), "failed"),
)


def describe(error: BaseException | None) -> dict[str, str]:
    """The outcome of a run that ended with an error, or with none, and the reason."""
    if error is None:
        return {"outcome": "finished"}
    for kinds, outcome in KNOWN:
        if isinstance(error, kinds):
            return {"outcome": outcome, "reason": str(error)}
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return {"outcome": "failed", "reason": f"{type(error).__name__}: {error} ({where})"}
