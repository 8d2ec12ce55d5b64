"""All files below a folder that the user names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def files_below(folder: Path, skipped: list[str], hidden: bool = True) -> Iterator[Path]:
    """Files below a folder; links are followed, but no folder is entered twice, so links cannot make a loop.

    What cannot be read is described in ``skipped``. ``hidden``: also files and folders whose names begin with a dot.
    """
    seen: dict[tuple[int, int], Path] = {}
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            status = here.stat()
            key = (status.st_dev, status.st_ino)
            if key in seen:
                skipped.append(f"{here}: is the same folder as {seen[key]}; remove the link, or use --skip-bad")
                continue
            seen[key] = here
            entries = [
                (path, path.is_dir())
                for path in sorted(here.iterdir(), reverse=True)
                if hidden or not path.name.startswith(".")
            ]
        except OSError as error:
            skipped.append(f"{here}: cannot be read ({error.strerror}); make it readable, or use --skip-bad")
            continue
        for path, is_folder in entries:
            if is_folder:
                waiting.append(path)
            else:
                yield path
