"""Where pages are written: beside the run that they are about, and never over the page of another run."""

from __future__ import annotations

import hashlib
import html
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from twoclocks.core.errors import UserError
from twoclocks.core.text import visible
from twoclocks.runs.load import Run

_MARK = re.compile(r'<meta name="twoclocks-run" content="([^"]*)">')
_HEAD = 65536  # characters of a file in which a page has its first mark


def page_beside(folders: Sequence[Path], kind: str) -> Path:
    """The default page: ``DIR-KIND.html`` beside a folder, ``KIND.html`` beside the first of several.

    >>> page_beside([Path("runs/mine")], "report").as_posix()
    'runs/mine-report.html'
    """
    first = _named(folders[0])
    return first.parent / (f"{first.name}-{kind}.html" if len(folders) == 1 else f"{kind}.html")


def twins_page(first: Path, second: Path) -> Path:
    """The default page of a comparison: ``DIR_A-NAME_B-twins.html`` beside the first run.

    >>> twins_page(Path("runs/a"), Path("other/b")).as_posix()
    'runs/a-b-twins.html'
    """
    beside = _named(first)
    return beside.parent / f"{beside.name}-{_named(second).name}-twins.html"


def _named(folder: Path) -> Path:
    """The same folder with its own name at the end, where it was given as ``.`` or ``..``."""
    return folder if folder.name not in ("", "..") else folder.resolve()


def run_mark(run: Run) -> str:
    """Identifies a run on its page: its folder's name, and a digest of its settings and of when it began."""
    digest = hashlib.sha256(f"{run.manifest['origin']} {run.manifest['created']}".encode()).hexdigest()
    return f"{visible(_named(run.path).name)} {digest[:16]}"


def check_page(path: Path) -> None:
    """Refuse a path where no page, or no picture beside it, can be written, before anything is computed for it."""
    if path.suffix != ".html":
        raise UserError(f"--out: {str(path)!r} is not a page; give a file name that ends in .html")
    for one in (path, path.with_suffix(".png")):
        try:
            kind = one.lstat().st_mode if one.parent.is_dir() else None
        except FileNotFoundError:
            continue
        except OSError as error:  # a name that is too long
            raise UserError(f"--out: {str(one)!r} cannot be written ({error.strerror}); give another name") from None
        if kind is None or stat.S_ISDIR(kind):
            raise UserError(f"--out: {str(one)!r} cannot be written; give a file in an existing folder")
        if not stat.S_ISREG(kind):  # a link may lead anywhere, and a pipe or a device has no end
            raise UserError(f"--out: {str(one)!r} is not a regular file; choose another --out, or remove it")


def check_owner(path: Path, runs: Sequence[Run], unread: Sequence[Path] = ()) -> None:
    """Refuse to write over a page or its picture (PNG) that is not of these runs, or that is also about other runs.

    ``unread``: folders of further runs, which are known by name alone: damaged, or not trained yet. A picture is that
    of the page beside it.
    """
    check_page(path)
    picture = path.with_suffix(".png")
    if not path.exists() and not picture.exists():
        return
    marks = _marks_on(path) if path.exists() else []
    known, names = {run_mark(run) for run in runs}, {visible(_named(folder).name) for folder in unread}
    owners = {mark: mark.rpartition(" ")[0] for mark in marks}  # a folder's name may contain spaces
    others = [name for mark, name in owners.items() if mark not in known and name not in names]
    if marks and not others:
        return
    what = f"is the page of another run ({others[0]})" if others else "exists and is not a page of a run"
    if not path.exists():
        path, what = picture, "exists and is not the picture of a page of these runs"
    raise UserError(f"--out: {str(path)!r} {what}; choose another --out, or remove the file")


def _marks_on(path: Path) -> list[str]:
    """The marks of all runs that a page is about; empty for another file."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        head = stream.read(_HEAD) + stream.readline()
        if _MARK.search(head) and "</head>" not in head:  # a page of thousands of runs has as many marks, one per line
            for line in stream:
                head += line if _MARK.search(line) else ""
                if "</head>" in line:
                    break
        return [html.unescape(mark) for mark in _MARK.findall(head)]
