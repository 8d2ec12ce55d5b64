"""A folder of images, with all folders below it, in the order of their names."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

from twoclocks.core.errors import UserError
from twoclocks.core.text import show
from twoclocks.data.folders import files_below
from twoclocks.data.images.decode import SUFFIXES, decode_file
from twoclocks.data.images.options import PackOptions
from twoclocks.data.images.pack import Item, Source


def folder_source(folder: Path, options: PackOptions) -> Source:
    """All image files below a folder; files with other names are ignored."""
    skipped: list[str] = []
    files = list(files_below(folder, skipped))
    if skipped and not options.skip_bad:
        raise UserError(skipped[0])
    found = sorted((path.relative_to(folder).as_posix(), path) for path in files if _is_image(path))
    if not found:
        others = Counter(path.suffix.lower() or "no suffix" for path in files)
        known = f"; it has {show(dict(others.most_common(3)))}" if others else ""
        fix = "name a folder of images, or add --tokens letters for text"
        raise UserError(f"{folder}: has no images ({' '.join(SUFFIXES)}){known}; {fix}")
    items = (Item(name, partial(decode_file, path, options)) for name, path in found)
    return Source(f"folder {folder.resolve().name}", len(found), items, tuple(sorted(skipped)), str(folder))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith("._")  # macOS writes such companions
