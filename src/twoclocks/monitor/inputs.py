"""What a monitor is given, as arrays, texts and numbers; anything else is a UserError that names the argument."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.text import show

Values = npt.NDArray[Any]  # (n, *shape): integers or floats
Text = tuple[Any, ...] | str  # tokens, or a string
TOKENS = (str, int, np.integer)
MOST = 1 << 40  # entries of an array; more is a mistake, and no memory holds it


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Convert a list, array or tensor to a numpy array; bfloat16, which numpy lacks, becomes float32."""
    try:
        plain = without_tensors(values, name)
        if np.ma.is_masked(plain):
            raise UserError(f"{name}: some values are masked; leave missing samples out")
        array = np.asarray(plain)
    except UserError:
        raise
    except Exception as error:  # numpy asks the object, which may answer with any error
        raise UserError(f"{name}: it is not an array ({show(error)}); give rows of equal length") from None
    if array.size > MOST:
        raise UserError(f"{name}: shape {array.shape} is too large; give fewer entries")
    return array


def without_tensors(values: Any, name: str) -> Any:
    """The same values, with arrays in the place of tensors, also in lists."""
    if hasattr(values, "detach") and hasattr(values, "layout"):
        return array_of(values, name)
    if type(values) in (list, tuple) and any(hasattr(one, "detach") for one in values):
        return [without_tensors(one, name) for one in values]
    return values


def array_of(tensor: Any, name: str) -> Any:
    """A tensor as an array, whatever its device and dtype, and whether it has a gradient."""
    if tensor.is_nested or "strided" not in str(tensor.layout):
        raise UserError(
            f"{name}: a sparse or nested tensor is not allowed; give a dense one, such as tensor.to_dense()"
        )
    if tensor.is_meta or tensor.is_quantized:
        raise UserError(f"{name}: a tensor on the device meta, or a quantized one, has no values; give one with values")
    plain = tensor.detach().cpu()
    return plain.float() if plain.is_floating_point() and str(plain.dtype)[6:] not in NUMPY_FLOATS else plain


NUMPY_FLOATS = ("float16", "float32", "float64")


def device_of(samples: Any) -> str:
    """Device on which samples are: "cpu" for everything that is not a tensor."""
    return str(getattr(samples, "device", "cpu")) if hasattr(samples, "detach") else "cpu"


def is_bfloat16(values: Any) -> bool:
    """Whether values are a tensor of bfloat16, or a list of such."""
    first = values[0] if type(values) in (list, tuple) and len(values) else values
    return "bfloat16" in str(getattr(first, "dtype", ""))


def as_values(values: Any, name: str) -> Values:
    """Convert values to an array (n, *shape): floats keep their dtype, integers get the smallest that can hold them.

    Values that may be missing (NaN, infinity, masked) are an error; they never count as "not a copy".
    """
    array = as_array(values, name)
    if array.dtype.kind not in "iubf":
        raise UserError(f"{name}: {show(values)} has the dtype {array.dtype}; give integers or floats, (n, entries)")
    if array.ndim < 2 or array.size == 0:
        raise UserError(f"{name}: shape {array.shape} is not allowed; give at least one row, as (n, entries)")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise UserError(f"{name}: a value is NaN or infinite; leave missing samples out")
        native = np.float64 if array.dtype.itemsize > 8 else array.dtype.newbyteorder("=")  # those that torch has too
        if not np.isfinite(array := np.ascontiguousarray(array, dtype=native)).all():
            raise UserError(f"{name}: a value is too large for float64; give smaller ones")
        return array
    least = np.result_type(*(np.min_scalar_type(int(end)) for end in (array.min(), array.max())))
    # There is no integer dtype for numbers below 0 and above 2^63 together, and numpy would take floats.
    return np.ascontiguousarray(array, dtype=least if least.kind in "iub" else np.int64)


def as_losses(values: Any, name: str) -> npt.NDArray[np.float64]:
    """Convert a number, or one per sample, to finite floats (n,)."""
    array = as_array(values, name)
    if array.dtype.kind not in "iubf" or array.size == 0 or not np.isfinite(array).all():
        raise UserError(f"{name}: {show(values)} is empty or not finite; give a number, or one per sample")
    return array.astype(np.float64).ravel()


def gap_of(train: Any, held_out: Any) -> tuple[float, float | None]:
    """Held-out minus training loss, and its standard error; None if the losses are single numbers."""
    means, variances = [], []
    for name, values in (("train_loss", train), ("held_out_loss", held_out)):
        array = as_losses(values, name)
        means.append(float(array.mean()))
        variances.append(float(array.var(ddof=1)) / array.size if array.size > 1 else None)
    known = [value for value in variances if value is not None]
    return means[1] - means[0], float(np.sqrt(sum(known))) if len(known) == 2 else None


def is_texts(values: Any) -> bool:
    """Whether values are texts: strings, or sequences of tokens of different lengths."""
    if hasattr(values, "dtype") or isinstance(values, memoryview | bytes | bytearray | range):
        return False
    if not isinstance(values, Sequence) or not len(values):
        return False
    if isinstance(values[0], str):
        return True
    lengths = {len(row) for row in values if isinstance(row, Sequence) or getattr(row, "ndim", None) == 1}
    try:
        rows = [as_array(row, "train") for row in values[:100]]
    except UserError:
        return False
    return len(lengths) > 1 and all(not row.size or row.dtype.kind in "iu" for row in rows)


def as_texts(values: Any, name: str) -> list[Text]:
    """Convert strings, or rows of tokens, to texts."""
    if not isinstance(values, Sequence | np.ndarray) and not hasattr(values, "detach"):
        raise UserError(f"{name}: {show(values)} is not a list of texts; give at least one, as a list")
    rows = values if isinstance(values, Sequence) and not isinstance(values, memoryview) else as_array(values, name)
    if isinstance(rows, str | bytes) or not np.ndim(rows if isinstance(rows, np.ndarray) else [0]) or not len(rows):
        raise UserError(f"{name}: {show(values)} is not a list of texts; give at least one, as a list")
    texts: list[Text] = []
    for index, row in enumerate(rows):
        tokens = str(row) if isinstance(row, str) else tuple(as_array(row, name).ravel().tolist())
        if not isinstance(tokens, str) and not all(isinstance(token, TOKENS) for token in tokens):
            raise UserError(f"{name}: text {index} has tokens that are neither integers nor strings; give token ids")
        texts.append(tokens)
    return texts


def called(function: Callable[..., Any], name: str, *given: Any) -> Any:
    """What a function of the user returns; an error inside of it names the argument that the function was given as."""
    try:
        return function(*given)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{name}: the function raised {type(error).__name__} ({show(error)}); mend it") from error


def as_path(given: Any) -> Path:
    """A path of a file; UserError for anything else."""
    if not isinstance(given, str | os.PathLike) or "\0" in os.fspath(given) or not Path(given).name:
        raise UserError(f"path: {show(given)} is not the name of a file; give one, such as 'copies.png'")
    return Path(given)


def checked_number(name: str, value: Any, above: float, below: float, fix: str) -> float:
    """A number inside an interval without its ends; SettingError for anything else."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not above < value < below:
        raise SettingError(name, Shown(value), fix)
    return float(value)


def checked_integer(name: str, value: Any, least: int, most: int = 1 << 40) -> int:
    """An integer between two limits; SettingError for anything else."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= most:
        up_to = f" and at most {most}" if most < 1 << 40 else ""
        raise SettingError(name, Shown(value), f"use an integer of at least {least}{up_to}")
    return int(value)


def checked_flag(name: str, value: Any) -> None:
    """Raise SettingError unless a value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise SettingError(name, Shown(value), "use True or False")


class Shown:
    """A value whose representation is one short line, for messages."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return show(self.value)
