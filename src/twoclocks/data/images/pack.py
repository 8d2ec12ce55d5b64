"""Pack images: crop, resize, convert, drop duplicates, collect in one array."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.core.errors import UserError
from twoclocks.core.packed_images import PackedImages, Pixels, make_packed, write_packed
from twoclocks.data.images.extras import need
from twoclocks.data.images.options import PackOptions

Report = Callable[[int, int, str], None]  # images done, of how many, name of the last


@dataclass(frozen=True)
class Item:
    """An image of a source: its name, and how to get its pixels (height, width, 1 or 3)."""

    name: str
    load: Callable[[], Pixels]


@dataclass(frozen=True)
class Source:
    """Where images come from: words for people, the images in a fixed order, and what was found unusable before."""

    words: str
    count: int
    items: Iterable[Item]
    skipped: tuple[str, ...] = ()
    root: str = ""  # the folder, which the packed file does not repeat: where it lay is nobody's business


def pack_source(source: Source, options: PackOptions, report: Report | None = None) -> PackedImages:
    """All images of a source as one array; the first image decides on height, width and channels.

    Duplicates are dropped unless they are to be kept, because a training set has distinct rows.
    """
    stack = bytearray()
    names: list[str] = []
    skipped, dropped = list(source.skipped), []
    seen: dict[bytes, str] = {}
    first: tuple[str, tuple[int, ...]] | None = None
    for number, item in enumerate(source.items, start=1):
        try:
            pixels = fit(item.load(), item.name, options)
            first = first or (item.name, pixels.shape)
            _check_same_shape(first, (item.name, pixels.shape))
        except UserError as error:
            if not options.skip_bad:
                raise
            skipped.append(str(error))
            continue
        data = pixels.tobytes()
        key = hashlib.sha256(data).digest()
        if key in seen and not options.keep_duplicates:
            dropped.append([item.name, seen[key]])
        else:
            seen[key] = item.name
            names.append(item.name)
            stack += data
        if report is not None:
            report(number, source.count, item.name)
    if first is None:
        reason = f"; the first: {skipped[0]}" if skipped else ""
        raise UserError(f"{source.words}: no image can be used ({len(skipped)} skipped{reason}); name another source")
    skipped = [line.replace(f"{source.root}/", "") for line in skipped] if source.root else skipped
    array = np.frombuffer(stack, dtype=np.uint8).reshape(len(names), *first[1])
    origin = {"source": source.words, "options": options.in_words(), "skipped": skipped, "duplicates": dropped}
    return make_packed(array, tuple(names), origin)


def pack_dataset(
    data: Any, out: Path | str, *, words: str = "a Python data set", report: Report | None = None, **options: Any
) -> PackedImages:
    """Pack any indexable data set: items are Pillow images, arrays, or tuples that start with one.

    Arrays have the shape (height, width), (height, width, 1 or 3) or (1 or 3, height, width). ``options`` are those of
    ``PackOptions``. The file ``out`` is written; the returned images are those in it.
    """
    from twoclocks.data.images.arrays import item_of

    chosen = PackOptions(**options)

    def load(i: int) -> Pixels:
        return item_of(data[i], f"item {i}", chosen)

    items = (Item(str(i), partial(load, i)) for i in range(len(data)))
    packed = pack_source(Source(words, len(data), items), chosen, report)
    write_packed(packed, out)
    return packed


def _check_same_shape(first: tuple[str, tuple[int, ...]], this: tuple[str, tuple[int, ...]]) -> None:
    (name, shape), (other, found) = first, this
    if shape[0] != found[0]:
        raise UserError(
            f"{other}: has {found[0]} channels, but {name} has {shape[0]}; use --channels 1 or --channels 3"
        )
    if shape != found:
        sizes = f"is {found[1]}×{found[2]} (height × width), but {name} is {shape[1]}×{shape[2]}"
        raise UserError(f"{other}: {sizes}; use --size 32 --crop centre, or another size")


def fit(pixels: Pixels, name: str, options: PackOptions) -> Pixels:
    """An image (height, width, c) as (channels, height, width): cropped, resized and converted as told."""
    pixels = _cropped(pixels, name, options)
    height, width = pixels.shape[:2]
    channels = options.channels or pixels.shape[2]
    if options.size is not None and height != width:
        raise UserError(f"{name}: is {height}×{width} (height × width), not square; use --crop centre, or no --size")
    resized = options.size is not None and options.size != height
    if resized or channels != pixels.shape[2]:
        pil = need("PIL.Image", "Pillow")
        image = pil.fromarray(np.ascontiguousarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0]))
        image = image.convert("RGB" if channels == 3 else "L")
        if resized:
            image = image.resize((options.size, options.size), pil.Resampling[options.resample.upper()])
        pixels = np.asarray(image).reshape(*image.size[::-1], channels)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _cropped(pixels: Pixels, name: str, options: PackOptions) -> Pixels:
    if options.crop == "none":
        return pixels
    height, width = pixels.shape[:2]
    side = min(height, width) if options.crop == "centre" else int(options.crop)
    if side > min(height, width):
        fix = f"use --crop {min(height, width)} or less, or --skip-bad"
        raise UserError(f"{name}: is {height}×{width} (height × width), smaller than the crop of {side}; {fix}")
    top, left = (height - side) // 2, (width - side) // 2
    return pixels[top : top + side, left : left + side]
