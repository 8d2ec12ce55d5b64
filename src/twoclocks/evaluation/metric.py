"""What is said about a column of the metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["higher is better", "lower is better", "higher is copying", "neither"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What a column of the metrics means."""

    name: str
    about: str
    direction: Direction
    chance_rule: float | None = None  # its value for a model that draws as the rule's own generator does
    chance_cube: float | None = None  # and for one that draws uniform symbols


def pieces_named(kind: str) -> str:
    """Pieces of a kind in words: ``rows``; ``pieces of layer 1``."""
    return f"pieces of {kind.replace('_', ' ')}" if "_" in kind else f"{kind}s"
