"""P1 Fig. 5: training samples of the binary rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from twoclocks.papers.drawing import styled
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.report.montage import MontageInfo, draw_montage, panel
from twoclocks.rules.base import RULES

SAMPLES = 25
ROWS: tuple[tuple[str, str, tuple[dict[str, Any], ...]], ...] = (  # rule, what varies, its settings
    ("parity", "group", tuple({"length": 36, "group": g} for g in (2, 3, 6, 36))),
    ("exact_k", "k", tuple({"length": 36, "k": k} for k in (6, 9, 12, 18))),
    ("row_k", "k", tuple({"side": 6, "k": k} for k in (1, 2, 3, 4))),
    ("row_variable_k", "ks", tuple({"side": 6, "ks": ks} for ks in ((2, 3), (1, 2, 3), (2, 4)))),
    ("global_k", "ks", tuple({"side": 6, "ks": ks} for ks in ((2, 3), (1, 2, 3), (2, 4)))),
)
NAMES = {"parity": "parity", "exact_k": "exact-K", "row_k": "row-K", "row_variable_k": "row-variable-K"}
NAMES |= {"global_k": "global-K"}
SIGNS = {"group": "G", "k": "K", "ks": "K"}


@FIGURES.register("fig5")
class BinaryRules(PaperFigure[MontageInfo]):
    """Each panel has 25 samples of one rule."""

    id: ClassVar[str] = "fig5"
    title: ClassVar[str] = "Training samples of the binary rules"
    shows: ClassVar[str] = "5×5 samples of 6×6 bits for each of the binary rules, one row per family"

    def data(self, records: Records) -> MontageInfo:
        rows = []
        for name, varied, settings in ROWS:
            panels = [panel(name, RULES.create(name, **one), SAMPLES, seed=0) for one in settings]
            titles = [f"{NAMES[name]}, {value_words(varied, one[varied]).removeprefix('K ∈ ')}" for one in settings]
            rows.append([replace(one, title=title) for one, title in zip(panels, titles, strict=True)])
        return MontageInfo(rows)

    @styled
    def draw(self, info: MontageInfo) -> Any:
        return draw_montage(info)

    def caption(self, info: MontageInfo) -> str:
        sizes = [RULES.create(name, **settings[0]).count() for name, _, settings in ROWS]
        words = "; ".join(f"{row[0].title}: {size:.2g}" for row, size in zip(info.rows, sizes, strict=True))
        return (
            f"{SAMPLES} samples per panel, drawn uniformly from the valid set; dark is 1. Rows from above: every group "
            "of G bits has even parity; K ones in all; K ones in each row; a K of the list in each row; one K of the "
            f"list for all rows. Numbers of valid samples of the first column: {words}; of all images: {2**36:.2g}."
        )


def value_words(varied: str, value: Any) -> str:
    """Such as ``G = 3`` or ``K ∈ {2, 3}``."""
    if isinstance(value, (tuple, list)):
        return f"{SIGNS[varied]} ∈ {{{', '.join(map(str, value))}}}"
    return f"{SIGNS[varied]} = {value}"
