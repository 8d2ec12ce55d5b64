"""Deterministic, disjoint parts of a set of images."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import SettingError
from twoclocks.core.seeds import numpy_stream

Rows = npt.NDArray[np.int64]


def split_order(count: int, seed: int = 0) -> Rows:
    """A random order of ``count`` images, the same on every machine; slices of it are disjoint sets.

    >>> split_order(5).tolist() == split_order(5, seed=0).tolist(), sorted(split_order(5, seed=1).tolist())
    (True, [0, 1, 2, 3, 4])
    """
    keys = numpy_stream(seed, "order of images").bit_generator.random_raw(count)  # a stream that numpy never changes
    return np.argsort(keys, kind="stable").astype(np.int64)


def split_rows(count: int, n: int, part: int = 0, held_out: int = 0, seed: int = 0) -> tuple[Rows, Rows]:
    """Rows of training part ``part`` with n images, and the rows that are held out from every part.

    The first ``held_out`` images of the order are never trained on; part p has the p-th n images after them.
    """
    if part < 0:
        raise SettingError("part", part, "use 0, 1, …")
    if held_out < 0 or held_out >= count:
        raise SettingError("held_out", held_out, f"there are {count} images; use 0 to {count - 1}")
    room = (count - held_out) // (part + 1)
    if not 1 <= n <= room:
        where = f"part {part} of {count} images with {held_out} held out"
        fix = f"use 1 to {room}" if room else "use a smaller part"
        raise SettingError("n", n, f"{where} has room for {room}; {fix}, or pack more images")
    order = split_order(count, seed)
    start = held_out + part * n
    return order[start : start + n], order[:held_out]
