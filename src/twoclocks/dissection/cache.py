"""A cache of measurements beside the run, keyed by a hash of all that determines them; damaged entries are ignored."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
from functools import cache
from pathlib import Path
from typing import Any

from twoclocks.core.config import to_mapping
from twoclocks.core.plugins import imports_behind
from twoclocks.dissection.subject import Subject
from twoclocks.dissection.view import VIEWS, Arrays, View
from twoclocks.store import files
from twoclocks.store.files import DiskError

MEASURING = ("core", "rules", "data", "oracles", "models", "objectives", "kernels", "evaluation", "dissection")

log = logging.getLogger("twoclocks")


class Cache:
    """A folder of measurements; without a folder nothing is stored."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.memory: dict[str, Arrays] = {}

    def get(self, key: str | None) -> Arrays | None:
        if key is None or self.folder is None:
            return None
        if key not in self.memory:
            found = self.read(self.folder / f"{key}.measurement")
            if found is None:
                return None
            self.memory[key] = found
        return self.memory[key]

    def read(self, path: Path) -> Arrays | None:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        if not path.is_file() or path.is_symlink():
            return None
        checksum, _, data = files.read(path).partition(b"\n")
        try:
            return dict(load(data)) if checksum.decode("ascii", "replace") == files.digest(data) else None
        except SafetensorError:
            return None

    def put(self, key: str | None, arrays: Arrays) -> None:
        if key is None or self.folder is None:
            return
        from safetensors.numpy import save

        self.memory[key] = arrays
        data = save(arrays)
        try:
            files.make_folder(self.folder)
            files.write_atomic(self.folder / f"{key}.measurement", files.digest(data).encode() + b"\n" + data)
        except DiskError as error:  # a run on a read-only disk can still be analysed
            log.warning(f"{error}; measurements are not stored")
            self.folder = None


def key_of(view: View, subject: Subject, step: int | None) -> str | None:
    """Cache key of one measurement: SHA-256 of the view's settings and code, the run's settings, and the data it reads.

    ``step`` None: the key of what does not change with training. Returns None where the origin of the data is unknown.
    """
    origin = "constants" if step is None else subject.origin(view.reads, step)
    if origin is None:
        return None
    measured = {name: value for name, value in to_mapping(view).items() if name not in view.interprets}
    document: dict[str, Any] = {
        "view": VIEWS.name_of(view),
        "settings": measured,
        "code": (code_of(type(view)), code_of_package()),
        "imports": imported_code(subject),
        "run": subject.settings.digest(),
        "origin": origin,
        "precision": subject.precision if view.reads == "weights" else "",
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def imported_code(subject: Subject) -> list[str]:
    """SHA-256 of the user's files that the run's rule, encoding, model or objective come from (``--import``)."""
    settings = subject.settings
    return imports_behind((settings.rule, settings.encoding, settings.model, settings.objective))


@cache
def code_of(cls: type) -> str:
    """SHA-256 of the file that defines a view, which may belong to another package."""
    source = inspect.getsourcefile(cls)
    return files.digest(Path(source).read_bytes()) if source is not None else ""


@cache
def code_of_package() -> str:
    """SHA-256 of all code that a measurement can depend on: after a change everything is measured again."""
    root = Path(__file__).parents[1]
    sources = sorted(path for folder in MEASURING for path in (root / folder).rglob("*.py"))
    return files.digest(b"".join(path.read_bytes() for path in sources))
