"""Generated parts of the documentation: one file per group of tables, one function per part."""

from __future__ import annotations

from collections.abc import Callable

from docparts import (
    claims,
    clocks,
    fine_tune,
    images,
    live,
    monitor,
    registries,
    reliability,
    source_tree,
    speed,
    widen,
)

PARTS: dict[str, Callable[[], str]] = {
    **claims.PARTS,
    **clocks.PARTS,
    **fine_tune.PARTS,
    **images.PARTS,
    **live.PARTS,
    **monitor.PARTS,
    **registries.PARTS,
    **reliability.PARTS,
    **source_tree.PARTS,
    **speed.PARTS,
    **widen.PARTS,
}
