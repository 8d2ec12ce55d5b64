"""How images are made equal in size and channels when they are packed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twoclocks.core.errors import SettingError

RESAMPLE = ("lanczos", "bicubic", "bilinear", "box", "nearest")
VALUES = {"unit": (0.0, 1.0), "signed": (-1.0, 1.0)}  # of floats: what becomes 0 and what becomes 255
SPLITS = ("train", "test", "all")
MOST_PIXELS = 89_478_485  # of one image: Pillow's own limit
MOST_SIDE = 4096


@dataclass(frozen=True, kw_only=True)
class PackOptions:
    """Options of ``pack``: the same options and the same source give the same file, byte by byte.

    >>> PackOptions(size=32, crop="middle")
    Traceback (most recent call last):
    twoclocks.core.errors.SettingError: crop: 'middle' is not allowed; use centre, none or a number of pixels
    """

    size: int | None = None  # height and width after resizing; None: as they are
    channels: int | None = None  # 1 (grey) or 3 (RGB); None: as the first image
    crop: str | int = "centre"  # the largest centred square, none, or a centred square of so many pixels
    resample: str = "lanczos"  # Pillow's filter
    background: int | None = None  # grey value behind transparent pixels; None: they are refused
    first_frame: bool = False  # take the first frame of animated images; else they are refused
    values: str | None = None  # floats: "unit" lie in [0, 1], "signed" in [-1, 1]
    key: str | None = None  # which array of an .npz file
    split: str = "train"  # which published files: train, test or all
    skip_bad: bool = False  # leave out and list what cannot be used, instead of stopping at it
    keep_duplicates: bool = False
    most_pixels: int = MOST_PIXELS

    def __post_init__(self) -> None:
        if self.size is not None:
            _check_integer("size", self.size, 1, MOST_SIDE)
        if self.channels not in (None, 1, 3):
            raise SettingError("channels", self.channels, "use 1 (grey) or 3 (RGB)")
        if self.crop not in ("centre", "none"):
            if not _is_integer(self.crop):
                raise SettingError("crop", self.crop, "use centre, none or a number of pixels")
            _check_integer("crop", self.crop, 1, 1 << 16)
        if self.resample not in RESAMPLE:
            raise SettingError("resample", self.resample, f"use one of {', '.join(RESAMPLE)}")
        if self.background is not None:
            _check_integer("background", self.background, 0, 255)
        if self.values is not None and self.values not in VALUES:
            raise SettingError("values", self.values, "use unit (0 to 1) or signed (-1 to 1)")
        if self.split not in SPLITS:
            raise SettingError("split", self.split, f"use one of {', '.join(SPLITS)}")
        _check_integer("most_pixels", self.most_pixels, 1, 1 << 34)

    def in_words(self) -> dict[str, Any]:
        """What was done to the pixels, for the header of the packed file."""
        named = ("size", "channels", "crop", "resample", "background", "first_frame", "values", "split")
        return {name: getattr(self, name) for name in named}


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_integer(name: str, value: Any, least: int, most: int) -> None:
    if not _is_integer(value) or not least <= value <= most:
        raise SettingError(name, value, f"use an integer from {least} to {most}")
