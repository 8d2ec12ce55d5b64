"""JSON with checksums: a document contains its own SHA-256; a line contains one of itself and all lines before it.

A SHA-256 is the last field, and that of the bytes before it. So reading compares bytes and encodes nothing again, which
matters where thousands of runs are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from twoclocks.core.errors import UserError
from twoclocks.store.files import digest

START = "0" * 64  # the link before the first line
LINK = len(', "link": ""}\n') + 64  # bytes at the end of a line that contain its link
SEAL = len(',\n  "sha256": ""\n}\n') + 64  # bytes at the end of a document that contain its SHA-256
Kinds = type | tuple[type, ...]


class DamagedError(UserError):
    """A file on disk is not what was written."""


def encode_document(value: dict[str, Any]) -> bytes:
    """Encode a JSON object, which has at least one field, with its SHA-256 as the last field.

    >>> decode_document(encode_document({"step": 5}))
    {'step': 5}
    """
    body = json.dumps(value, indent=2, allow_nan=False).encode()
    return body.removesuffix(b"\n}") + f',\n  "sha256": "{digest(body)}"\n}}\n'.encode()


def decode_document(data: bytes) -> dict[str, Any]:
    """The inverse of ``encode_document``; DamagedError if a byte differs."""
    body = data[:-SEAL] + b"\n}"
    if data[-SEAL:] != f',\n  "sha256": "{digest(body)}"\n}}\n'.encode():
        parse(data)  # "it is not JSON" says more
        raise DamagedError("its SHA-256 differs")
    return parse(body, FINITE)


def require(value: Any, needed: Mapping[str, Kinds], allowed: Mapping[str, Kinds] | None = None) -> None:
    """DamagedError unless a document has the ``needed`` fields, and those ``allowed`` only with the right types.

    A document with a right SHA-256 may still be another one than its name says.
    """
    if not isinstance(value, Mapping):
        raise DamagedError(f"it is another document: it has a {type(value).__name__} where a mapping is needed")
    for name, kinds in {**needed, **(allowed or {})}.items():
        if name not in value:
            if name in needed:
                raise DamagedError(f"it is another document: it has no field {name!r}")
        elif not isinstance(value[name], kinds) or isinstance(value[name], bool):
            raise DamagedError(f"it is another document: its field {name!r} is of type {type(value[name]).__name__}")
        elif value[name] == math.inf:
            raise DamagedError(f"its field {name!r} is infinite")


def settings_digest(settings: Mapping[str, Any]) -> str:
    """SHA-256 of all settings but the labels, the same on every machine: two runs with the same are the same run."""
    return digest(json.dumps(without_labels(settings), sort_keys=True).encode())


def without_labels(settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings that decide a result."""
    return {key: value for key, value in settings.items() if key not in ("name", "description")}


def encode_line(row: dict[str, Any], previous: str) -> tuple[bytes, str]:
    """Encode a row, which has at least one field, as one line with its link; return the line and the link.

    The link is the SHA-256 of the previous link and this row.
    """
    body = json.dumps(row, allow_nan=False).encode()
    link = digest(previous.encode() + body)
    return body.removesuffix(b"}") + f', "link": "{link}"}}\n'.encode(), link


def decode_line(line: bytes, previous: str) -> tuple[dict[str, Any], str]:
    """The inverse of ``encode_line``: row and link; DamagedError if a byte differs."""
    body = line[:-LINK] + b"}"
    link = digest(previous.encode() + body)
    if line[-LINK:] != f', "link": "{link}"}}\n'.encode():
        parse(line)  # "it is not JSON" says more
        raise DamagedError("its SHA-256 differs")
    return parse(body), link


def refuse_constant(name: str) -> float:
    """NaN and infinity, which Python would read, are not JSON."""
    raise ValueError(name)


def finite(text: str) -> float:
    """A float of a document; one beyond the largest float would be read as infinity."""
    value = float(text)
    if math.isinf(value):
        raise DamagedError("it contains infinity")
    return value


PLAIN = json.JSONDecoder(parse_constant=refuse_constant)
FINITE = json.JSONDecoder(parse_constant=refuse_constant, parse_float=finite)


def parse(data: bytes, decoder: json.JSONDecoder = PLAIN) -> dict[str, Any]:
    """Parse a JSON object without checking its SHA-256."""
    try:
        value = decoder.decode(data.decode())
    except DamagedError:
        raise
    except (ValueError, RecursionError):
        raise DamagedError("it is not JSON") from None
    if not isinstance(value, dict):
        raise DamagedError("it is not a JSON object")
    return value
