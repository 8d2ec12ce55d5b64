"""Arrays as images: ``.npy`` and ``.npz`` files, and items of data sets. No pickled object is ever loaded."""

from __future__ import annotations

import io
import zipfile
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import UserError
from twoclocks.core.packed_images import Pixels
from twoclocks.core.reading import read_file
from twoclocks.core.text import show
from twoclocks.data.images.decode import decode_image, decoding
from twoclocks.data.images.options import VALUES, PackOptions
from twoclocks.data.images.pack import Item, Source
from twoclocks.data.images.room import check_room

MOST_BYTES = 1 << 36  # of an array
Array = npt.NDArray[Any]


def array_source(path: Path, options: PackOptions) -> Source:
    """The images of a ``.npy`` or ``.npz`` file."""
    data = read_file(path, MOST_BYTES)
    words = f"array {path.name}"
    if zipfile.is_zipfile(io.BytesIO(data)):
        key, array = _from_npz(path, data, options.key)
        words = f"{words}, key {key}"
    else:
        array = _parse_npy(io.BytesIO(data), len(data), f"{path}")
    return source_of_array(array, str(path), words, options)


def _from_npz(path: Path, data: bytes, key: str | None) -> tuple[str, Array]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
            known = ", ".join(sorted(members))
            if key is None and len(members) != 1:
                raise UserError(f"{path}: has the arrays {known or 'none'}; name one with --key")
            chosen = next(iter(members)) if key is None else key
            if chosen not in members:
                raise UserError(f"{path}: has no array {show(chosen)}; use --key with one of {known}")
            size = archive.getinfo(members[chosen]).file_size
            with archive.open(members[chosen]) as stream:
                return chosen, _parse_npy(stream, size, f"{path}, {chosen}")
    except (UserError, MemoryError):
        raise
    except Exception as error:  # a damaged archive raises anything: BadZipFile, ValueError, zlib.error, …
        raise UserError(f"{path}: is a damaged archive ({show(error)}); make the file again") from None


def _parse_npy(stream: IO[bytes], size: int, name: str) -> Array:
    """The array of a stream of ``size`` bytes, read without numpy's loader, which could unpickle objects."""
    try:
        version = np.lib.format.read_magic(stream)
        read_header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}[version[0]]
        shape, fortran, dtype = read_header(stream)
    except Exception:  # numpy parses the header as Python source, and raises whatever its parser does
        raise UserError(
            f"{name}: is no array that numpy.save or numpy.savez has written; make the file again"
        ) from None
    if dtype.hasobject:
        fix = "save it as uint8, numpy.save(file, array.astype('uint8'))"
        raise UserError(f"{name}: holds pickled Python objects, which could run code and are never loaded; {fix}")
    needed = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if needed > size:
        raise UserError(f"{name}: is cut off, an array of shape {shape} has {needed:,} bytes; make the file again")
    check_room(needed, name)
    data = stream.read(needed)
    if len(data) != needed:
        raise UserError(f"{name}: is cut off after {len(data):,} of {needed:,} bytes; make the file again")
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def source_of_array(array: Array, name: str, words: str, options: PackOptions) -> Source:
    """The images of an array (n, height, width), (n, height, width, c) or (n, c, height, width)."""
    if array.ndim not in (3, 4) or 0 in array.shape:
        fix = "use (n, height, width), (n, height, width, channels) or (n, channels, height, width)"
        raise UserError(f"{name}: has the shape {show(array.shape)}; {fix}")
    _check_type(array, name, options)
    axis = _channel_axis(array.shape[1:], name)

    def load(i: int) -> Pixels:
        return _pixels(array[i], axis, f"{name}, image {i}", options)

    items = (Item(str(i), partial(load, i)) for i in range(len(array)))
    return Source(words, len(array), items)


def item_of(item: Any, name: str, options: PackOptions) -> Pixels:
    """The pixels (height, width, c) of an item of a data set: a Pillow image, an array, or a tuple with a label."""
    if isinstance(item, tuple | list) and item:
        item = item[0]
    if hasattr(item, "getextrema") and hasattr(item, "mode"):
        with decoding(name, options):
            return decode_image(item, name, options)
    array = np.asarray(item)
    if array.ndim not in (2, 3) or 0 in array.shape:
        fix = "items must be Pillow images or arrays (height, width[, channels]), or (image, label)"
        raise UserError(f"{name}: {show(type(item).__name__)} of shape {show(array.shape)}; {fix}")
    _check_type(array, name, options)
    return _pixels(array, _channel_axis(array.shape, name), name, options)


def _check_type(array: Array, name: str, options: PackOptions) -> None:
    """uint8, or floats whose range the user has stated."""
    if array.dtype.kind == "f" and options.values is None:
        fix = "say what is black and white: --values unit (0 to 1) or --values signed (-1 to 1)"
        raise UserError(f"{name}: has the type {array.dtype}; {fix}")
    if array.dtype.kind != "f" and array.dtype != np.uint8:
        fix = "convert the array to uint8 with values 0 to 255, or to floats"
        raise UserError(f"{name}: has the type {array.dtype}; {fix}")


def _channel_axis(shape: tuple[int, ...], name: str) -> int | None:
    """Which axis of one image has the channels; None: there is none."""
    if len(shape) == 2:
        return None
    last, first = shape[2] in (1, 3), shape[0] in (1, 3)
    if last == first:
        why = "could have its channels first or last" if last else "has no axis of 1 or 3 channels"
        raise UserError(f"{name}: an image of shape {show(shape)} {why}; use (height, width, channels)")
    return 2 if last else 0


def _pixels(array: Array, axis: int | None, name: str, options: PackOptions) -> Pixels:
    image = array[:, :, None] if axis is None else np.moveaxis(array, axis, 2)
    if image.dtype == np.uint8:
        return image
    low, high = VALUES[options.values or "unit"]
    values = image.astype(np.float64)
    if not np.isfinite(values).all():
        raise UserError(f"{name}: has values that are NaN or infinite; correct the array, or use --skip-bad")
    if values.min() < low or values.max() > high:
        found = f"{values.min():.4g} to {values.max():.4g}"
        raise UserError(f"{name}: has values from {found}, outside [{low:g}, {high:g}]; choose other --values")
    return np.rint((values - low) * (255 / (high - low))).astype(np.uint8)
