"""One checked file of images: uint8 (n, channels, height, width), with where they come from and a SHA-256.

The file is a safetensors file with one tensor, ``pixels``, so other programs can read it. Its header holds ``about``
(JSON: source, names, options, what was left out) and the SHA-256 of that text. The header is a function of ``about``
alone, and ``about`` has the digest of the pixels: every changed bit is noticed, and equal contents are equal files.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import UserError
from twoclocks.core.writing import replace_file

Pixels = npt.NDArray[np.uint8]
FORMAT = "twoclocks images 1"
LONGEST_HEADER = 100_000_000  # bytes; the limit of safetensors
CHUNK = 1 << 24  # bytes that are hashed at a time
FIX = "pack the images again (twoclocks data pack)"


@dataclass(frozen=True)
class PackedImages:
    """Images (n, channels, height, width) as uint8, the name of each, and what is known of their origin."""

    pixels: Pixels
    names: tuple[str, ...]
    about: dict[str, Any]  # source, options, skipped, duplicates

    @property
    def digest(self) -> str:
        """SHA-256 of shape and pixels, as hexadecimal text; names and origin do not matter."""
        found: str = self.about["digest"]
        return found

    def __len__(self) -> int:
        return len(self.pixels)

    def summary(self) -> dict[str, Any]:
        """What the file holds, without the names of its images."""
        count, channels, height, width = self.pixels.shape
        counted = {name: len(self.about[name]) for name in ("skipped", "duplicates")}
        shape = {"images": count, "channels": channels, "height": height, "width": width}
        return {
            "source": self.about["source"],
            **shape,
            **counted,
            "options": self.about["options"],
            "digest": self.digest,
        }


def make_packed(pixels: Pixels, names: tuple[str, ...], origin: dict[str, Any]) -> PackedImages:
    """Packed images of these pixels; ``origin`` has source, options, skipped and duplicates."""
    about = {**origin, "format": FORMAT, "shape": list(pixels.shape), "digest": digest_of(pixels), "names": list(names)}
    return PackedImages(pixels, names, about)


def digest_of(pixels: Pixels) -> str:
    """SHA-256 of the shape and the bytes: three grey images and one RGB image with the same bytes differ."""
    found = hashlib.sha256(f"uint8 {' '.join(map(str, pixels.shape))}\n".encode())
    for part in _chunks(pixels):
        found.update(part)
    return found.hexdigest()


def _chunks(pixels: Pixels) -> Iterator[memoryview]:
    flat = np.ascontiguousarray(pixels).reshape(-1)
    for start in range(0, flat.size, CHUNK):
        yield flat[start : start + CHUNK].data


def write_packed(packed: PackedImages, path: Path | str) -> None:
    """Write the file atomically; a complete file that was there before is replaced only by a complete one."""
    replace_file(path, (part for parts in ((_header(packed.about),), _chunks(packed.pixels)) for part in parts))


def _header(about: dict[str, Any]) -> bytes:
    text = json.dumps(about, sort_keys=True, allow_nan=False)
    shape = about["shape"]
    tensor = {"dtype": "U8", "shape": shape, "data_offsets": [0, int(np.prod(shape, dtype=np.int64))]}
    metadata = {"about": text, "about_sha256": hashlib.sha256(text.encode()).hexdigest(), "format": FORMAT}
    header = json.dumps({"__metadata__": metadata, "pixels": tensor}).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > LONGEST_HEADER:
        raise UserError(f"names of the images: {len(header):,} bytes; use shorter names or fewer images")
    return len(header).to_bytes(8, "little") + header


def read_packed(path: Path | str) -> PackedImages:
    """Map a packed file into memory and check its SHA-256; UserError if it is damaged or something else.

    >>> read_packed("/nowhere/images.safetensors")
    Traceback (most recent call last):
    twoclocks.core.errors.UserError: /nowhere/images.safetensors: cannot be read (No such file or directory); \
make it with twoclocks data pack
    """
    path = Path(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL character
        reason = getattr(error, "strerror", None) or "no file can have this name"
        raise UserError(f"{path}: cannot be read ({reason}); make it with twoclocks data pack") from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise UserError(f"{path}: is not a regular file; name a file that twoclocks data pack has made")
    with os.fdopen(descriptor, "rb") as stream:
        about, start = _read_header(path, stream, found.st_size)
        shape = tuple(about["shape"])
        expected = start + int(np.prod(shape, dtype=object))
        if found.st_size != expected:
            raise UserError(f"{path}: has {found.st_size:,} bytes instead of {expected:,}; {FIX}")
        pixels: Pixels = np.memmap(stream, dtype=np.uint8, mode="r", offset=start, shape=shape)
    if digest_of(pixels) != about["digest"]:
        raise UserError(f"{path}: is damaged (its pixels do not have the stored SHA-256); {FIX}")
    return PackedImages(pixels, tuple(about["names"]), about)


def _read_header(path: Path, stream: IO[bytes], size: int) -> tuple[dict[str, Any], int]:
    """``about`` and the offset of the pixels."""
    length = int.from_bytes(stream.read(8), "little")
    if size < 8 or not 2 <= length <= min(LONGEST_HEADER, size - 8):
        raise UserError(f"{path}: is no file of packed images, or not all of it; {FIX}")
    header = stream.read(length)
    try:
        metadata = json.loads(header)["__metadata__"]
        about = json.loads(metadata["about"])
        known = about["format"] == FORMAT
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{path}: is no file of packed images, or its header is damaged; {FIX}") from None
    if not known:
        raise UserError(f"{path}: has another format than {FORMAT!r}; {FIX}")
    try:
        intact = _header(about)[8:] == header and _is_complete(about)
    except (ValueError, KeyError, TypeError, OverflowError):
        intact = False
    if not intact:
        raise UserError(f"{path}: is damaged (its header does not have the stored SHA-256); {FIX}")
    return about, 8 + length


def _is_complete(about: dict[str, Any]) -> bool:
    """Whether a header, which anybody can write, describes images as this module writes them."""
    shape, names = about["shape"], about["names"]
    return (
        len(shape) == 4
        and all(type(side) is int and side > 0 for side in shape)
        and shape[1] in (1, 3)
        and len(names) == shape[0]
        and all(isinstance(name, str) for name in names)
        and isinstance(about["source"], str)
        and isinstance(about["options"], dict)
        and all(isinstance(about[name], list) for name in ("skipped", "duplicates"))
    )


def duplicates(packed: PackedImages) -> list[tuple[str, ...]]:
    """Names of images that are equal pixel by pixel, one group per image that occurs more than once."""
    groups: dict[bytes, list[str]] = {}
    for name, pixels in zip(packed.names, packed.pixels, strict=True):
        groups.setdefault(hashlib.sha256(pixels.tobytes()).digest(), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]
