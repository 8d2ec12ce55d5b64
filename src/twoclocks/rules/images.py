"""Real images from one packed file: arrays of pixels. Images have no rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.lazy import torch
from twoclocks.core.packed_file import OpenFiles
from twoclocks.core.packed_images import PackedImages, Pixels, read_packed
from twoclocks.core.rows import byte_keys, row_keys
from twoclocks.core.seeds import random_order
from twoclocks.rules.base import MOST_ENTRIES, RULES, Array, Rule, in_range

if TYPE_CHECKING:
    from torch import Tensor

BUILT_IN = "digits"  # handwritten digits of scikit-learn, 1,797 of 8×8
OPEN = OpenFiles(read_packed)


@RULES.register("images")
@dataclass(frozen=True, kw_only=True)
class Images(Rule):
    """Images of a packed file (``twoclocks data pack``), pixels 0 to 255, equal ones once.

    There is no rule that a new image could obey or break: runs have the clocks of copies, of the loss gap and of
    quality. ``is_valid`` says whether an array is one of the images.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    has_rule: ClassVar[bool] = False
    is_corpus: ClassVar[bool] = True
    is_image: ClassVar[bool] = True

    file: str = setting(BUILT_IN, "a file of twoclocks data pack; digits: 1,797 handwritten digits of 8×8, built in")
    sha256: str = setting("", "SHA-256 of the pixels; filled in if empty, checked if given")
    reserved: float = setting(
        0.2, "share of the images that no run trains on or holds out: features are learned from them", at_least=0
    )

    def check(self) -> None:
        if self.file != BUILT_IN:  # a run must find its images from any working directory
            object.__setattr__(self, "file", str(Path(self.file).absolute()))
        packed = packed_images(self.file)
        if self.sha256 not in ("", packed.digest):
            fix = f"the images of {self.file!r} have {packed.digest[:16]}…; use those images, or leave sha256 out"
            raise SettingError("sha256", self.sha256, fix)
        object.__setattr__(self, "sha256", packed.digest)
        if np.prod(self.shape) > MOST_ENTRIES:
            fix = (
                f"they have {np.prod(self.shape):,} values, more than {MOST_ENTRIES:,}; pack them with a smaller --size"
            )
            raise SettingError("file", self.file, fix)
        if not self.reserved < 1 or self.support() < 2:
            raise SettingError("reserved", self.reserved, "use a share below 1 that leaves at least two images")

    @property
    def pixels(self) -> Pixels:
        return packed_images(self.file, self.sha256).pixels

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pixels.shape[1:]

    @property
    def symbols(self) -> int:
        return 256

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        chosen = used_rows(self.file, self.sha256, self.reserved)
        return self.pixels[chosen[rng.integers(0, len(chosen), size=n)]]

    def listed(self) -> Array:
        return self.pixels[used_rows(self.file, self.sha256, self.reserved)]

    def reserved_images(self) -> Tensor:
        """The images (n, channels, height, width) as uint8 that no run trains on or holds out."""
        rows = reserved_rows(self.file, self.sha256, self.reserved)
        return torch.from_numpy(np.ascontiguousarray(self.pixels[rows]))

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        return {"image": x.flatten(1)[:, None]}

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        known = in_range(x, self.symbols)
        keys = row_keys(torch.where(known.reshape(-1, 1, 1, 1), x, 0).cpu(), self.symbols)
        found = np.isin(keys, row_keys(self.listed(), self.symbols))
        return {"image": (torch.from_numpy(found).to(x.device) & known)[:, None]}

    def count(self) -> int:
        return len(used_rows(self.file, self.sha256, self.reserved))

    def part_counts(self) -> dict[str, int]:
        return {"image": self.count()}

    def members(self) -> Tensor:
        return torch.from_numpy(self.listed().astype(np.int64))


def packed_images(file: str, digest: str = "") -> PackedImages:
    """The packed images of a file, read and checked once; with a digest, the images that it had then."""
    try:
        return OPEN.get(Path(__file__).with_name("digits.safetensors") if file == BUILT_IN else Path(file), digest)
    except UserError as error:
        raise SettingError("file", file, str(error)) from None


@lru_cache(maxsize=16)
def distinct_rows(file: str, digest: str) -> Array:
    """The first of every set of equal images, in a random order that is the same for everyone."""
    pixels = packed_images(file, digest).pixels
    flat: Pixels = np.ascontiguousarray(pixels).reshape(len(pixels), -1)
    _, first = np.unique(byte_keys(flat), return_index=True)
    return np.sort(first)[random_order(len(first), 0, "order of images")]


def reserved_rows(file: str, digest: str, share: float) -> Array:
    rows = distinct_rows(file, digest)
    return rows[: round(share * len(rows))]


@lru_cache(maxsize=16)
def used_rows(file: str, digest: str, share: float) -> Array:
    """The rows that runs train on or hold out, in the order of the file."""
    rows = distinct_rows(file, digest)
    return np.sort(rows[round(share * len(rows)) :])
