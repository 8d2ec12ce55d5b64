"""Refuse what would not fit into memory before it is decompressed."""

from __future__ import annotations

from twoclocks.core.errors import UserError
from twoclocks.core.memory import memory_limit


def check_room(needed: int, name: str) -> None:
    """UserError if so many bytes of one file, and as many packed ones, are more than this process may use."""
    limit = memory_limit()
    if limit is not None and 2 * needed > limit:
        fix = "use fewer images, or a machine with more memory"
        raise UserError(f"{name}: announces {needed:,} bytes of pixels, this process may use {limit:,}; {fix}")
