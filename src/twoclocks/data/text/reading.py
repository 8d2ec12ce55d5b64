"""A text file as a stream of parts: UTF-8 is decoded as it is read, so that memory does not grow with the file."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path

from twoclocks.core.errors import UserError
from twoclocks.core.reading import open_file

CHUNK = 1 << 20  # bytes that are read at a time
FIX = "or leave it out with --skip-bad"
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path, chunk: int | None = None) -> Iterator[str]:
    r"""The text of a UTF-8 file in parts of at most ``chunk`` bytes; UserError if it is something else.

    As Python reads text: line ends become ``\n``. A byte-order mark at the beginning is left out.
    """
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), translate=True)
    done = 0  # bytes
    with open_file(path, fix=f"restore the file, {FIX}") as stream:
        while True:
            try:
                data = stream.read(chunk or CHUNK)
                if done == 0 and data.startswith(UTF_16):
                    raise UserError(f"{path}: is UTF-16; convert it (iconv -f UTF-16 -t UTF-8), {FIX}")
                done += len(data)
                part = decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                position = done - len(error.object) + error.start  # the object also has what was left of the last part
                reason = f"is not UTF-8 (byte 0x{error.object[error.start]:02x} at position {position:,})"
                raise UserError(f"{path}: {reason}; convert it (iconv -f LATIN1 -t UTF-8), {FIX}") from None
            except OSError as error:
                raise UserError(f"{path}: cannot be read ({error.strerror}); restore the file, {FIX}") from None
            if "\0" in part:
                raise UserError(f"{path}: has a NUL character, so it is no text; name a text file, {FIX}")
            if part:
                yield part
            if not data:
                return


def check_text(path: Path) -> int:
    """The number of bytes of a file that is UTF-8 from its beginning to its end and not empty; UserError if not.

    Files are checked before anything is packed, so that a bad one can be left out as a whole.
    """
    is_blank = True
    for part in read_text(path):
        is_blank = is_blank and part.isspace()
    size = path.stat().st_size
    if is_blank:
        found = "is empty (0 bytes)" if size == 0 else "has only white space"
        raise UserError(f"{path}: {found}; name a text file, {FIX}")
    return size
