"""JSON with checksums: a document contains its own SHA-256; a line contains one of itself and all lines before it.

Reading compares bytes: the parsed value is encoded again, and the result must equal what was read.
"""

from __future__ import annotations

import json
from typing import Any

from twoclocks.core.errors import UserError
from twoclocks.store.files import digest

START = "0" * 64  # the link before the first line


class DamagedError(UserError):
    """A file on disk is not what was written."""


def encode_document(value: dict[str, Any]) -> bytes:
    """Encode a JSON object with its SHA-256 as the last field.

    >>> decode_document(encode_document({"step": 5}))
    {'step': 5}
    """
    body = json.dumps(value, indent=2, allow_nan=False)
    return json.dumps({**value, "sha256": digest(body.encode())}, indent=2, allow_nan=False).encode() + b"\n"


def decode_document(data: bytes) -> dict[str, Any]:
    """The inverse of ``encode_document``; DamagedError if a byte differs."""
    value = parse(data)
    value.pop("sha256", None)
    if encode_document(value) != data:
        raise DamagedError("its SHA-256 differs")
    return value


def encode_line(row: dict[str, Any], previous: str) -> tuple[bytes, str]:
    """Encode a row as one line; return it and its link, the SHA-256 of the previous link and this row."""
    body = json.dumps(row, allow_nan=False)
    link = digest(f"{previous}{body}".encode())
    return json.dumps({**row, "link": link}, allow_nan=False).encode() + b"\n", link


def decode_line(line: bytes, previous: str) -> tuple[dict[str, Any], str]:
    """The inverse of ``encode_line``: row and link; DamagedError if a byte differs."""
    row = parse(line)
    row.pop("link", None)
    expected, link = encode_line(row, previous)
    if expected != line:
        raise DamagedError("its SHA-256 differs")
    return row, link


def parse(data: bytes) -> dict[str, Any]:
    """Parse a JSON object without checking its SHA-256."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise DamagedError("it is not JSON") from None
    if not isinstance(value, dict):
        raise DamagedError("it is not a JSON object")
    return value
