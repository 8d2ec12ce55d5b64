"""One checked file of images: uint8 (n, channels, height, width), with where they come from and a SHA-256."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.packed_file import Kind, digest_of, read_array, write_array

Pixels = npt.NDArray[np.uint8]


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
    stored = {"format": IMAGES.format, "shape": list(pixels.shape), "digest": digest_of(pixels), "names": list(names)}
    return PackedImages(pixels, names, {**origin, **stored})


def write_packed(packed: PackedImages, path: Path | str) -> None:
    """Write the file atomically; a complete file that was there before is replaced only by a complete one."""
    write_array(IMAGES, packed.about, packed.pixels, path)


def read_packed(path: Path | str) -> PackedImages:
    """Map a packed file into memory and check its SHA-256; UserError if it is damaged or something else.

    >>> read_packed("/nowhere/images.safetensors")
    Traceback (most recent call last):
    twoclocks.core.errors.UserError: /nowhere/images.safetensors: cannot be read (No such file or directory); \
make it with twoclocks data pack
    """
    pixels, about = read_array(IMAGES, path, lambda array, about: digest_of(array))
    return PackedImages(pixels, tuple(about["names"]), about)


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


IMAGES = Kind("twoclocks images 1", "pixels", "images", _is_complete)


def duplicates(packed: PackedImages) -> list[tuple[str, ...]]:
    """Names of images that are equal pixel by pixel, one group per image that occurs more than once."""
    groups: dict[bytes, list[str]] = {}
    for name, pixels in zip(packed.names, packed.pixels, strict=True):
        groups.setdefault(hashlib.sha256(pixels.tobytes()).digest(), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]
