"""The power laws τ_mem = a·N^α that P1 prints in its Table 4, by network and group size."""

from __future__ import annotations

import math
from typing import NamedTuple

from twoclocks.papers.two_clocks.runs import DIT, GPT, GROUPS

GPT_B = "p1-gpt-b"


class PrintedFit(NamedTuple):
    """One line of Table 4; P1 prints no intervals."""

    a: float
    alpha: float
    r_squared: float
    points: int

    def at(self, n: float) -> float:
        return self.a * math.pow(n, self.alpha)


def by_group(*lines: tuple[float, float, float, int]) -> dict[int | None, PrintedFit]:
    """The pooled fit, under None, then one per group size."""
    return {group: PrintedFit(*line) for group, line in zip((None, *GROUPS), lines, strict=True)}


PRINTED_FITS: dict[str, dict[int | None, PrintedFit]] = {
    DIT: by_group(
        (35.3, 1.14, 0.94, 34),
        (45.8, 1.08, 1.00, 5),
        (36.2, 1.15, 0.99, 4),
        (19.0, 1.25, 0.99, 4),
        (18.6, 1.24, 0.98, 5),
        (70.2, 1.05, 1.00, 4),
        (24.0, 1.19, 0.99, 4),
        (26.4, 1.17, 1.00, 4),
        (19.3, 1.22, 1.00, 4),
    ),
    GPT: by_group(
        (2.1, 0.97, 0.94, 34),
        (0.6, 1.10, 0.99, 4),
        (1.1, 1.02, 0.99, 4),
        (2.2, 0.96, 0.99, 4),
        (11.0, 0.81, 0.83, 6),
        (1.0, 1.05, 1.00, 4),
        (0.7, 1.09, 1.00, 4),
        (1.4, 1.01, 1.00, 4),
        (2.2, 0.97, 0.98, 4),
    ),
    GPT_B: by_group(
        (0.5, 1.06, 0.97, 16),
        (0.1, 1.27, 1.00, 2),
        (0.4, 1.10, 1.00, 2),
        (0.6, 1.04, 1.00, 2),
        (0.1, 1.25, 1.00, 2),
        (0.9, 1.00, 1.00, 2),
        (1.7, 0.93, 1.00, 2),
        (1.4, 0.94, 1.00, 2),
        (1.4, 0.96, 1.00, 2),
    ),
}
