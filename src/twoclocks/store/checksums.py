"""JSON that shows every change: a document carries its own SHA-256, a line that of all lines before it too.

Reading compares bytes, not meaning: what was read is written again, and must come out the same.
"""

from __future__ import annotations

import json
from typing import Any

from twoclocks.core.errors import UserError
from twoclocks.store.files import digest

START = "0" * 64  # the link before the first line


class DamagedError(UserError):
    """What is on disk is not what was written."""


def encode_document(value: dict[str, Any]) -> bytes:
    """A JSON object with its hash as the last field.

    >>> decode_document(encode_document({"step": 5}))
    {'step': 5}
    """
    body = json.dumps(value, indent=2, allow_nan=False)
    return json.dumps({**value, "sha256": digest(body.encode())}, indent=2, allow_nan=False).encode() + b"\n"


def decode_document(data: bytes) -> dict[str, Any]:
    value = parse(data)
    value.pop("sha256", None)
    if encode_document(value) != data:
        raise DamagedError("its SHA-256 differs")
    return value


def encode_line(row: dict[str, Any], previous: str) -> tuple[bytes, str]:
    """One line and its link: the hash of the previous link and of this row."""
    body = json.dumps(row, allow_nan=False)
    link = digest(f"{previous}{body}".encode())
    return json.dumps({**row, "link": link}, allow_nan=False).encode() + b"\n", link


def decode_line(line: bytes, previous: str) -> tuple[dict[str, Any], str]:
    row = parse(line)
    row.pop("link", None)
    sealed, link = encode_line(row, previous)
    if sealed != line:
        raise DamagedError("its SHA-256 differs")
    return row, link


def parse(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise DamagedError("it is not JSON") from None
    if not isinstance(value, dict):
        raise DamagedError("it is not a JSON object")
    return value
