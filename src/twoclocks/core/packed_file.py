"""One checked file of an array: a safetensors file with a single tensor, and where it comes from.

The header holds ``about`` (JSON: source, options, and more) and the SHA-256 of that text. The header is a function of
``about`` alone, and ``about`` has the digest of the array: every changed bit is noticed, and equal contents are equal
files. Other programs can read the file as safetensors.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import UserError
from twoclocks.core.reading import open_file
from twoclocks.core.writing import replace_file

Array = npt.NDArray[Any]
About = dict[str, Any]
LONGEST_HEADER = 100_000_000  # bytes; the limit of safetensors
CHUNK = 1 << 24  # bytes that are hashed at a time
TYPES = {"uint8": "U8", "uint16": "U16", "uint32": "U32"}  # numpy's names and those of safetensors


@dataclass(frozen=True)
class Kind:
    """What a packed file holds."""

    format: str  # names kind and version, such as "twoclocks images 1"
    tensor: str  # its name in the file
    what: str  # in errors, such as "images"
    is_complete: Callable[[About], bool]  # whether a header, which anybody can write, describes what is written here

    @property
    def fix(self) -> str:
        return f"pack the {self.what} again (twoclocks data pack)"


FileState = tuple[int, int, int]


def file_state(path: Path | str) -> FileState | None:
    """What changes when a file is replaced or written to: inode, bytes and time; None where there is none."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Packed(Protocol):
    @property
    def digest(self) -> str: ...


P = TypeVar("P", bound=Packed)


class OpenFiles(Generic[P]):
    """Packed files that this process has read, each once; a file that was replaced is read again.

    Whoever asks with a digest gets that content even if another file is there by now: a run must not change its data.
    """

    def __init__(self, read: Callable[[Path], P]) -> None:
        self._read = read
        self._current: dict[Path, tuple[FileState | None, P]] = {}
        self._by_digest: dict[tuple[Path, str], P] = {}

    def get(self, path: Path, digest: str = "") -> P:
        """The content of a file; UserError where it cannot be read."""
        if (path, digest) in self._by_digest:
            return self._by_digest[path, digest]
        state = file_state(path)
        known = self._current.get(path)
        if known is None or known[0] != state:
            known = self._current[path] = state, self._read(path)
            self._by_digest[path, known[1].digest] = known[1]
        return known[1]


def digest_of(array: Array, before: bytes = b"") -> str:
    """SHA-256 of type, shape and bytes: three grey images and one RGB image with the same bytes differ.

    ``before``: what else belongs to the content.
    """
    found = hashlib.sha256(f"{array.dtype} {' '.join(map(str, array.shape))}\n".encode() + before)
    for part in _chunks(array):
        found.update(part)
    return found.hexdigest()


def ends_of(array: Array) -> tuple[int, int]:
    """The smallest and the largest entry, read chunk by chunk; (0, 0) of none."""
    ends = [(int(part.min()), int(part.max())) for part in (np.frombuffer(one, array.dtype) for one in _chunks(array))]
    return min((low for low, _ in ends), default=0), max((high for _, high in ends), default=0)


def _chunks(array: Array) -> Iterator[memoryview]:
    flat = np.ascontiguousarray(array).reshape(-1)
    step = max(1, CHUNK // flat.itemsize)
    for start in range(0, flat.size, step):
        yield flat[start : start + step].data.cast("B")
        _release_pages(flat)


def _release_pages(array: Array) -> None:
    """Let go of the pages of a mapped file that were read: else a whole pass counts as memory of this process."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and not array.flags.writeable and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)  # read only, so nothing is lost: the file has it all


def write_array(kind: Kind, about: About, array: Array, path: Path | str) -> None:
    """Write the file atomically; a complete file that was there before is replaced only by a complete one."""
    replace_file(path, (part for parts in ((_header(kind, about),), _chunks(array)) for part in parts))


def _header(kind: Kind, about: About) -> bytes:
    text = json.dumps(about, sort_keys=True, allow_nan=False)
    shape, dtype = about["shape"], np.dtype(about.get("type", "uint8"))
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    tensor = {"dtype": TYPES[dtype.name], "shape": shape, "data_offsets": [0, size]}
    metadata = {"about": text, "about_sha256": hashlib.sha256(text.encode()).hexdigest(), "format": kind.format}
    header = json.dumps({"__metadata__": metadata, kind.tensor: tensor}).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > LONGEST_HEADER:
        raise UserError(f"names of the {kind.what}: {len(header):,} bytes; use shorter names or fewer {kind.what}")
    return len(header).to_bytes(8, "little") + header


def read_array(kind: Kind, path: Path | str, digest: Callable[[Array, About], str]) -> tuple[Array, About]:
    """Map a packed file into memory and check its SHA-256; UserError if it is damaged or something else."""
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
        about, start = _read_header(kind, path, stream, found.st_size)
        shape, dtype = tuple(about["shape"]), np.dtype(about.get("type", "uint8"))
        expected = start + int(np.prod(shape, dtype=object)) * dtype.itemsize
        if found.st_size != expected:
            raise UserError(f"{path}: has {found.st_size:,} bytes instead of {expected:,}; {kind.fix}")
        array: Array = np.memmap(stream, dtype=dtype, mode="r", offset=start, shape=shape)
    if digest(array, about) != about["digest"]:
        raise UserError(f"{path}: is damaged (its {kind.tensor} do not have the stored SHA-256); {kind.fix}")
    return array, about


def stored_format(path: Path | str) -> str:
    """The format that the header of a packed file names; nothing where no header can be read. Checks nothing else."""
    try:
        with open_file(path) as stream:
            length = int.from_bytes(stream.read(8), "little")
            return str(json.loads(stream.read(min(length, LONGEST_HEADER)))["__metadata__"]["format"])
    except (UserError, OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def _read_header(kind: Kind, path: Path, stream: IO[bytes], size: int) -> tuple[About, int]:
    """``about`` and the offset of the array."""
    length = int.from_bytes(stream.read(8), "little")
    if size < 8 or not 2 <= length <= min(LONGEST_HEADER, size - 8):
        raise UserError(f"{path}: is no file of packed {kind.what}, or not all of it; {kind.fix}")
    header = stream.read(length)
    try:
        metadata = json.loads(header)["__metadata__"]
        about = json.loads(metadata["about"])
        known = about["format"] == kind.format
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{path}: is no file of packed {kind.what}, or its header is damaged; {kind.fix}") from None
    if not known:
        raise UserError(f"{path}: has another format than {kind.format!r}; {kind.fix}")
    try:
        intact = _header(kind, about)[8:] == header and kind.is_complete(about)
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError):
        intact = False
    if not intact:
        raise UserError(f"{path}: is damaged (its header does not have the stored SHA-256); {kind.fix}")
    return about, 8 + length
