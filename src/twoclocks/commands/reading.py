"""The runs that a command was given."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from twoclocks.core.errors import UserError

if TYPE_CHECKING:
    from twoclocks.runs import Run

T = TypeVar("T")

log = logging.getLogger("twoclocks")


def run_folders(folders: Sequence[Path]) -> list[Path]:
    """The run directories in these folders, each once, whether they can be read or not."""
    from twoclocks.store import runs_in

    return list({path.absolute(): path for folder in folders for path in runs_in(folder)}.values())


def load_runs(folders: Sequence[Path], read: Callable[[Run], T]) -> list[tuple[Run, T]]:
    """The runs in these folders, each once, with what ``read`` returns for it.

    A run that cannot be read costs a line on stderr; without any other run it is an error.
    """
    from twoclocks.runs import load_run

    paths = run_folders(folders)
    found = []
    for path in paths:
        try:
            run = load_run(path)
            found.append((run, read(run)))
        except UserError as error:
            if len(paths) == 1:
                raise
            log.warning(f"left out: {error}")
    if paths and not found:
        raise UserError(
            f"{', '.join(map(str, folders))}: none of the {len(paths)} runs can be read; see the lines above"
        )
    return found


def readable_runs(folders: Sequence[Path]) -> list[Run]:
    """The runs in these folders whose settings and evaluations can be read; thousands of them fit into memory."""
    from twoclocks.runs.digest import digest_run

    return [digest for _, digest in load_runs(folders, digest_run)]
