"""Load Python files of the user, which register their own rules, models, objectives, metrics, views or encodings.

Security: importing a file runs it, with all rights of the user. So a file is imported only where the user asks for it
in this process: with ``--import FILE.py``, with ``imports:`` in a YAML file that they run, or by calling
``import_file``. A run directory stores which files it was made with (path and SHA-256), but these names are data:
reading a run never imports them, because the directory may come from somebody else. If a part of such a run is
unknown here, the error names the file and the option that imports it.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import CodeType
from typing import Any

from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.reading import read_file
from twoclocks.core.text import show

log = logging.getLogger("twoclocks")

MOST_BYTES = 10_000_000  # per file
_MODULE = "twoclocks_import_"  # how the names of their modules begin
_imported: dict[Path, str] = {}  # resolved path: SHA-256, of the files that this process imported, in order
_warned: set[str] = set()  # SHA-256 of stored imports whose other version was mentioned already


class _LoaderOfBytes(SourceFileLoader):
    """Runs exactly the bytes whose SHA-256 is stored: no later version of the file, and no older bytecode."""

    def __init__(self, name: str, path: Path, data: bytes) -> None:
        super().__init__(name, str(path))
        self.data = data

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.data, self.path)


def import_file(path: Path | str, source: str = "--import", sha256: str | None = None) -> None:
    """Import one Python file, so that what it registers can be used; a second import of the same file does nothing.

    ``source`` is the option or the setting that names the file, for error messages. Another version of the file than
    ``sha256`` is refused. A file counts as the same if its path or its content is the same.
    """
    if Path(path).suffix != ".py":
        raise UserError(f"{source}: {show(str(path))} is not a Python file; give a file name that ends in .py")
    data = read_file(path, MOST_BYTES, source)
    file = Path(path).resolve()
    digest = hashlib.sha256(data).hexdigest()
    used = _imported.get(file, digest)  # a process never imports a second version
    if sha256 is not None and sha256 != used:
        versions = f"SHA-256 {used[:12]}… instead of {sha256[:12]}…"
        raise UserError(f"{source}: {path}: is another version than at the start ({versions}); start again")
    if file in _imported and used != digest:
        log.warning(f"{path}: changed after it was imported; start a new process to use the new version")
    if file in _imported or digest in _imported.values():
        return
    name = f"{_MODULE}{file.stem}_{digest[:8]}"
    spec = spec_from_file_location(name, file, loader=_LoaderOfBytes(name, file, data))
    assert spec is not None and spec.loader is not None  # the loader is given
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module while it is executed
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"{source}: {path}{_line_of(error, file)}: {_one_line(error)}; correct the file") from error
    _imported[file] = digest


def import_files(paths: Any, folder: Path = Path(), source: str = "imports") -> None:
    """Import the files that a YAML file lists; relative paths start at ``folder``, where that file is."""
    if paths is None:
        return
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise SettingError(source, paths, "use a list of Python files, for example [my_rule.py]")
    for path in paths:
        import_file(folder / path, source)


def imported_files() -> list[dict[str, str]]:
    """Path and SHA-256 of every file that this process imported."""
    return [{"path": str(path), "sha256": digest} for path, digest in _imported.items()]


def imported_names() -> list[dict[str, str]]:
    """The same with file names alone, as a run directory stores them: it may be shared, and folders are private."""
    return [{**record, "path": Path(record["path"]).name} for record in imported_files()]


def imports_behind(parts: Iterable[object]) -> list[str]:
    """SHA-256 of the imported files if one of them defines the class of a part, or a base of it; else nothing.

    Then all files count, because they can use each other. A file that only adds a view or a metric changes nothing in
    a run whose parts all come from elsewhere.
    """
    bases = {base.__module__ for part in parts for base in type(part).__mro__}
    return sorted(_imported.values()) if any(name.startswith(_MODULE) for name in bases) else []


def changed_imports(stored: Iterable[Mapping[str, str]]) -> list[tuple[str, str]]:
    """Name and stored SHA-256 of the files that a run directory names and that were imported with other content."""
    names = {path.name for path in _imported}
    records = [(Path(record["path"]).name, record["sha256"]) for record in stored]
    return [(name, digest) for name, digest in records if name in names and digest not in _imported.values()]


def missing_imports(stored: Sequence[Mapping[str, str]]) -> list[str]:
    """Paths that a run directory names and that this process did not import; warns where the content differs.

    A file with the same content counts wherever it is, and so does a file of the same name with other content: the
    user has imported it on purpose.
    """
    for name, digest in changed_imports(stored):
        if digest not in _warned:
            _warned.add(digest)
            log.warning(f"{name}: is not the version that the run was made with (SHA-256 {digest[:12]}…)")
    names = {path.name for path in _imported}
    unknown = [record for record in stored if record["sha256"] not in _imported.values()]
    return [record["path"] for record in unknown if Path(record["path"]).name not in names]


def needs_imports(place: object, missing: Sequence[str]) -> UserError:
    """The error for a run that was made with files which this process did not import."""
    options = " ".join(f"--import {path}" for path in missing)
    return UserError(f"{place}: was made with files that are not imported now; check them and add {options}")


def _line_of(error: BaseException, file: Path) -> str:
    """``, line 3``: where in the file an import failed, if it failed there."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if Path(frame.filename) == file]
    return f", line {lines[-1]}" if lines else ""


def _one_line(error: BaseException) -> str:
    """An exception's type and the first line of its message."""
    text = getattr(error, "msg", None) or str(error)
    return f"{type(error).__name__}: {str(text).strip().splitlines()[0]}" if str(text).strip() else type(error).__name__
