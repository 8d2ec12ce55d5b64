"""A folder of images, with all folders below it, in the order of their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from twoclocks.core.errors import UserError
from twoclocks.core.text import show
from twoclocks.data.images.decode import SUFFIXES, decode_file
from twoclocks.data.images.options import PackOptions
from twoclocks.data.images.pack import Item, Source


def folder_source(folder: Path, options: PackOptions) -> Source:
    """All image files below a folder; files with other names are ignored."""
    skipped: list[str] = []
    files = list(_files(folder, {}, skipped))
    if skipped and not options.skip_bad:
        raise UserError(skipped[0])
    found = sorted((path.relative_to(folder).as_posix(), path) for path in files if _is_image(path))
    if not found:
        others = Counter(path.suffix.lower() or "no suffix" for path in files)
        known = f"; it has {show(dict(others.most_common(3)))}" if others else ""
        raise UserError(f"{folder}: has no images ({' '.join(SUFFIXES)}){known}; name a folder of images")
    items = (Item(name, partial(decode_file, path, options)) for name, path in found)
    return Source(f"folder {folder.resolve().name}", len(found), items, tuple(sorted(skipped)), str(folder))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith("._")  # macOS writes such companions


def _files(folder: Path, seen: dict[tuple[int, int], Path], skipped: list[str]) -> Iterator[Path]:
    """Files below a folder; links are followed, but no folder is entered twice, so links cannot make a loop."""
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
            entries = [(path, path.is_dir()) for path in sorted(here.iterdir(), reverse=True)]
        except OSError as error:
            skipped.append(f"{here}: cannot be read ({error.strerror}); make it readable, or use --skip-bad")
            continue
        for path, is_folder in entries:
            if is_folder:
                waiting.append(path)
            else:
                yield path
