"""Run one job in a worker process, on any executor: one cell, from settings to a finished run directory."""

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
from twoclocks.store.lock import LockedError
from twoclocks.training.errors import DivergedError
from twoclocks.training.stopping import StoppedError


def run_job(job: dict[str, Any]) -> dict[str, str]:
    """Run a job and return its outcome (finished, diverged, memory, busy, stopped or failed) and the reason, if any."""
    try:
        for record in job.get("imports", ()):
            import_file(record["path"], "imports", record["sha256"])
        settings = build(RunSettings, job["settings"])
        run(settings, Path(job["out"]), checkpoint_seconds=job["checkpoint_seconds"])
        return {"outcome": "finished"}
    except DivergedError as error:
        return {"outcome": "diverged", "reason": str(error)}
    except (OutOfMemoryError, TooLargeError) as error:
        return {"outcome": "memory", "reason": str(error)}
    except LockedError as error:
        return {"outcome": "busy", "reason": str(error)}
    except StoppedError as error:
        return {"outcome": "stopped", "reason": str(error)}
    except UserError as error:
        return {"outcome": "failed", "reason": str(error)}
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return {"outcome": "failed", "reason": f"{type(error).__name__}: {error} ({where})"}
