"""Keep results that depend on the source code alone in a cache folder of the user.

Why: ``twoclocks list models`` prints the same table every time, and importing torch to compute it takes seconds. A
model's settings are defined beside its network, in one file, so they cannot be imported without torch. The first call
after a change of the source code computes the result, later calls read it.

A stored result is used only if it cannot differ from a computed one. Its first line is the SHA-256 of all source files
of this package, of Python's version and of the result itself, so a changed source file or a damaged result is noticed.
With components from elsewhere (``--import``, installed plug-ins, ``register`` in a script) nothing is stored or read,
because their code can change without notice. After any error of the file system, the result is computed.

The folder is ``$XDG_CACHE_HOME/twoclocks``, by default ``~/.cache/twoclocks``; it may be deleted at any time. The
environment variable ``TWOCLOCKS_CACHE=0`` switches the cache off.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from twoclocks.core.registry import Registry


def cached(name: str, compute: Callable[[], Any]) -> Any:
    """The result of ``compute``, which must consist of JSON's types, or the same result from an earlier process.

    ``name`` is a file name that identifies the result.
    """
    if not _is_useful():
        return compute()
    try:
        file, key = _folder() / f"{name}.json", f"{name} {_source_digest()}"
    except (OSError, RuntimeError):  # no source files, or no home folder
        return compute()
    with suppress(OSError, ValueError):  # not stored yet, or damaged
        digest, _, text = file.read_text(encoding="utf-8").partition("\n")
        if digest == _digest(key, text):
            return json.loads(text)
    result = compute()
    text = json.dumps(result)
    with suppress(OSError):
        _write(file, f"{_digest(key, text)}\n{text}")
    return result


def _is_useful() -> bool:
    """Whether torch would have to be imported, and all components are those of this package."""
    if os.environ.get("TWOCLOCKS_CACHE") == "0" or "torch" in sys.modules or Registry.extended:
        return False
    return not any(group.startswith("twoclocks.") for group in entry_points().groups)


def _folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "twoclocks"


@cache
def _source_digest() -> str:
    """SHA-256 of Python's version and of the name and content of all source files: 12 ms for 240 files."""
    package = Path(__file__).parents[1]
    sources = sorted(package.rglob("*.py"))
    if Path(__file__) not in sources:
        raise FileNotFoundError(f"{package}: has no source files")  # in an archive, for example
    found = hashlib.sha256(sys.version.encode())
    for path in sources:
        content = path.read_bytes()
        found.update(f"\n{path.relative_to(package)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def _digest(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()


def _write(file: Path, text: str) -> None:
    """Replace a file at once, so that another process reads the old or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(temporary).replace(file)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
