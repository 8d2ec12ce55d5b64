"""Declared symmetries: other forms of a training row that count as the same row, such as its mirror image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.core.text import show
from twoclocks.monitor.inputs import Values, as_values, called

Symmetry = Callable[[Values], Values]  # (n, *shape) -> (n, *shape), one other form of each row
CHANNELS = 4  # an axis of at most so many entries, first or last of three, is taken for colour channels
SHIFT = 2  # pixels by which "crop" moves an image

SYMMETRIES: dict[str, str] = {
    "flip": "mirrored left to right",
    "flip_vertical": "mirrored top to bottom",
    "rotate": "turned by 90, 180 and 270 degrees (square images)",
    "crop": f"moved by up to {SHIFT} pixels in each direction, as random crops with padding do; edges repeat",
}


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether rows of this shape are images: (H, W), (H, W, channels) or (channels, H, W)."""
    return len(shape) == 2 or (len(shape) == 3 and (shape[0] <= CHANNELS < shape[2] or shape[2] <= CHANNELS < shape[0]))


def image_axes(shape: tuple[int, ...]) -> tuple[int, int]:
    """The axes of height and width in arrays (n, *shape): (H, W), (H, W, channels) or (channels, H, W).

    >>> image_axes((3, 32, 32)), image_axes((32, 32, 3)), image_axes((8, 8))
    ((2, 3), (1, 2), (1, 2))
    """
    if len(shape) == 2:
        return 1, 2
    if len(shape) == 3 and shape[0] <= CHANNELS < shape[2]:
        return 2, 3
    if len(shape) == 3 and shape[2] <= CHANNELS < shape[0]:
        return 1, 2
    fix = "use images (H, W), (H, W, channels) or (channels, H, W), or give functions of your own"
    raise UserError(f"symmetries: rows of shape {shape} are no images; {fix}")


def mirrored(values: Values, axis: int) -> Values:
    return np.flip(values, axis)


def rotated(values: Values, axes: tuple[int, int], times: int) -> Values:
    return np.rot90(values, times, axes)


def moved(values: Values, axes: tuple[int, int], by: tuple[int, int]) -> Values:
    """Images moved by whole pixels; the pixels at the edge are repeated."""
    for axis, pixels in zip(axes, by, strict=True):
        place = np.clip(np.arange(values.shape[axis]) - pixels, 0, values.shape[axis] - 1)
        values = np.take(values, place, axis)
    return values


def named(name: str, shape: tuple[int, ...]) -> list[Symmetry]:
    """The forms of a named symmetry."""
    if name not in SYMMETRIES:
        raise UnknownNameError("symmetries", name, SYMMETRIES)
    axes = image_axes(shape)
    if name == "flip":
        return [partial(mirrored, axis=axes[1])]
    if name == "flip_vertical":
        return [partial(mirrored, axis=axes[0])]
    if name == "rotate":
        if shape[axes[0] - 1] != shape[axes[1] - 1]:
            raise UserError(f"symmetries: images of shape {shape} are not square; leave out 'rotate'")
        return [partial(rotated, axes=axes, times=times) for times in (1, 2, 3)]
    steps = range(-SHIFT, SHIFT + 1)
    return [partial(moved, axes=axes, by=(a, b)) for a in steps for b in steps if (a, b) != (0, 0)]


def symmetries_of(given: Sequence[str | Symmetry], rows: Values, kind: str) -> tuple[Symmetry, ...]:
    """The functions of declared symmetries, named or your own; UserError where they cannot be applied to the rows."""
    if not isinstance(given, list | tuple):
        raise UserError(f"symmetries: {show(given)} is not a list; write [{show(given)}]")
    if given and kind == "texts":
        raise UserError(f"symmetries: {show(given)} cannot be applied to texts; leave them out")
    found: list[Symmetry] = []
    for one in given:
        found += named(one, rows.shape[1:]) if isinstance(one, str) else [checked(one, rows)]
    return tuple(found)


def checked(function: Symmetry, rows: Values) -> Symmetry:
    """Your own function, after a try on two rows."""
    if not callable(function):
        known = ", ".join(SYMMETRIES)
        raise UserError(f"symmetries: {show(function)} is neither a name nor a function; known: {known}")
    expected = rows[[0, -1]]
    found = as_values(called(function, "symmetries", expected.copy()), "symmetries")
    if found.shape != expected.shape or (found.dtype.kind == "f") != (expected.dtype.kind == "f"):
        given, got = (f"{one.dtype} of shape {one.shape}" for one in (expected, found))
        raise UserError(f"symmetries: {show(function)} returned {got}; return {given}, as it was given")
    return function


def symmetry_name(symmetry: Symmetry) -> str:
    """Name by which a stored state knows a form again."""
    if isinstance(symmetry, partial):
        return f"{symmetry.func.__name__} {symmetry.keywords}"
    return getattr(symmetry, "__qualname__", type(symmetry).__qualname__)
