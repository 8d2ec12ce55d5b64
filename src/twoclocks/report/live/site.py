"""`twoclocks serve --once`: the same pages as files that open from disk, with the data of now beside them.

A page that is opened from disk may not fetch other files, but it may load scripts. So the data are scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twoclocks.core.errors import UserError
from twoclocks.report.live.catalogue import Catalogue, check_folders
from twoclocks.report.live.pages import ASSETS, DATA_SCRIPTS, THEME, asset, data_of, encoded, page_of
from twoclocks.store.files import make_folder, remove, write_atomic

MARK = "twoclocks-site.txt"  # in a folder that may be written again
MARKED = "Written by twoclocks serve --once; the same command replaces its files.\n"


def write_site(folders: Sequence[Path], out: Path) -> Path:
    """Write all pages below ``out``; return the first."""
    check_folders(folders)
    check_site(out, folders)
    catalogue = Catalogue(folders)
    catalogue.discover()
    for entry in catalogue.entries.values():
        entry.poll()
    texts = {f"assets/{name}": asset(name).encode() for name in (*ASSETS, THEME)}
    texts |= {"data/runs.js": script(catalogue, "runs"), "index.html": static(page_of(None), "runs")}
    for name in catalogue.entries:
        texts[f"data/run-{name}.js"] = script(catalogue, "run", name)
        texts[f"data/details-{name}.js"] = script(catalogue, "details", name)
        texts[f"run-{name}.html"] = static(page_of(name), f"run-{name}", f"details-{name}")
    make_folder(out)
    write_atomic(out / MARK, MARKED.encode())
    for folder in ("assets", "data"):
        make_folder(out / folder)
    for old in (*out.glob("run-*.html"), *out.glob("data/*.js")):  # of runs that are gone
        if old.relative_to(out).as_posix() not in texts:
            remove(old)
    for name, data in texts.items():
        write_atomic(out / name, data)
    return out / "index.html"


def script(catalogue: Catalogue, kind: str, name: str = "") -> bytes:
    """The answer of a data address as a script."""
    address = "/".join(("data", f"{kind}-{name}.json" if name else f"{kind}.json"))
    return b"twoclocks.known[%s] = %s;\n" % (encoded(address), encoded(data_of(catalogue, kind, name)))


def static(page: str, *data: str) -> bytes:
    """A page that loads its data as scripts."""
    tags = "\n".join(f'<script src="data/{name}.js"></script>' for name in data)
    return page.replace(DATA_SCRIPTS, tags).encode()


def check_site(out: Path, folders: Sequence[Path]) -> None:
    """Refuse a folder that holds anything else than an earlier site, and one inside of the folders that are read."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UserError(f"--out: {str(out)!r} is not a folder; choose another one")
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise UserError(f"--out: {str(out)!r} is not an empty folder; choose another one")
    if any(out.resolve().is_relative_to(folder.resolve()) for folder in folders):
        raise UserError(f"--out: {str(out)!r} is inside of a folder of runs, which is only read; choose another one")
