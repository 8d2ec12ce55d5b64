"""Recognise what the user has named: a folder of images, an array file, or a published set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from twoclocks.core.errors import UserError
from twoclocks.core.packed_images import PackedImages, write_packed
from twoclocks.data.images.arrays import array_source
from twoclocks.data.images.decode import SUFFIXES
from twoclocks.data.images.folder import folder_source
from twoclocks.data.images.options import PackOptions
from twoclocks.data.images.pack import Report, Source, pack_source
from twoclocks.data.images.published import BATCHES, IDX, cifar_source, digits_source, idx_source

DIGITS = "digits"
IDX_NAME = re.compile(r".*idx3-ubyte(\.gz)?")
CIFAR_NAME = re.compile(r"(data_batch_[1-5]|test_batch)(\.bin)?")


def pack(source: Path | str, out: Path | str, *, report: Report | None = None, **options: object) -> PackedImages:
    """Pack images from the disk into the file ``out``; ``options`` are those of ``PackOptions``.

    ``source``: a folder of images; a ``.npy`` or ``.npz`` file; CIFAR-10's folder or one of its files; idx files of
    MNIST or Fashion-MNIST, or their folder; or ``digits``, the images that come with scikit-learn.
    """
    chosen = PackOptions(**options)  # type: ignore[arg-type]
    packed = pack_source(open_source(source, chosen), chosen, report)
    write_packed(packed, out)
    return packed


def open_source(source: Path | str, options: PackOptions) -> Source:
    """The source of a path, or of the word ``digits``; UserError if nothing can be made of it."""
    path = Path(source)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError):  # a name that is too long, or with a NUL character
        is_folder = exists = False
    if not exists and str(source) == DIGITS:
        return digits_source()
    if not exists:
        raise UserError(
            f"{path}: does not exist or cannot be reached; name a folder of images, a .npy or .npz file, or digits"
        )
    if is_folder:
        return _published_in(path, options) or folder_source(path, options)
    if path.suffix.lower() in (".npy", ".npz"):
        return array_source(path, options)
    if IDX_NAME.fullmatch(path.name):
        return idx_source([path])
    if CIFAR_NAME.fullmatch(path.name) or path.suffix == ".bin":
        return cifar_source([path])
    if path.suffix.lower() in SUFFIXES:
        raise UserError(f"{path}: is one image; name the folder of your images")
    fix = "name a folder of images, a .npy or .npz file, or an idx file, or add --tokens letters for text"
    raise UserError(f"{path}: is of no known kind; {fix}")


def _published_in(folder: Path, options: PackOptions) -> Source | None:
    """The published set whose files lie in a folder, if there is one."""
    for suffix in (".bin", ""):
        if found := chosen_files(folder, BATCHES, options.split, (suffix,)):
            return cifar_source(found)
    named = {split: (name,) for split, name in IDX.items()}
    found = chosen_files(folder, named, options.split, ("", ".gz"))
    return idx_source(found) if found else None


def chosen_files(
    folder: Path, names: Mapping[str, tuple[str, ...]], split: str, suffixes: tuple[str, ...]
) -> list[Path]:
    """Files of the chosen split; empty if the folder has no file of any split. A missing file is an error."""
    candidates = {name: [folder / f"{name}{suffix}" for suffix in suffixes] for part in names.values() for name in part}
    present = {name: next((path for path in paths if path.is_file()), None) for name, paths in candidates.items()}
    if not any(present.values()):
        return []
    wanted = [name for part in (names if split == "all" else (split,)) for name in names[part]]
    if lost := [name for name in wanted if present[name] is None]:
        raise UserError(f"{folder / lost[0]}{suffixes[0]}: is missing; complete the folder, or choose another --split")
    return [path for name in wanted if (path := present[name]) is not None]
