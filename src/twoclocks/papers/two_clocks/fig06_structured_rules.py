"""P1 Fig. 6: training samples of the structured categorical rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from twoclocks.papers.drawing import styled
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.report.montage import MontageInfo, draw_montage, panel
from twoclocks.rules.base import RULES, Rule

SAMPLES = 3
ROWS: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("rows only, n = 6", "row_latin", {"side": 6}),
    ("Latin square, n = 5", "latin", {"side": 5}),
    ("Latin square, n = 6", "latin", {"side": 6}),
    ("Sudoku, blocks of 2×3", "sudoku", {"block_rows": 2, "block_cols": 3}),
)


@FIGURES.register("fig6")
class StructuredRules(PaperFigure[MontageInfo]):
    """Each row has three samples of one rule."""

    id: ClassVar[str] = "fig6"
    title: ClassVar[str] = "Training samples of Latin squares and Sudoku"
    shows: ClassVar[str] = "three samples of each structured rule; colours are symbols"

    def data(self, records: Records) -> MontageInfo:
        rows = []
        for title, name, settings in ROWS:
            whole = panel(name, rule_of(name, settings), SAMPLES, seed=0)
            titles = [title if k == SAMPLES // 2 else "" for k in range(SAMPLES)]
            rows.append([replace(whole, title=t, samples=whole.samples[k : k + 1]) for k, t in enumerate(titles)])
        return MontageInfo(rows)

    @styled
    def draw(self, info: MontageInfo) -> Any:
        return draw_montage(info, width=4.4)

    def caption(self, info: MontageInfo) -> str:
        sizes = ", ".join(f"{title}: {rule_of(name, settings).count():,}" for title, name, settings in ROWS)
        return (
            f"{SAMPLES} samples per rule, drawn uniformly from the valid set; each colour is a symbol. Numbers of "
            f"valid grids: {sizes}. P1 permutes rows, columns and symbols of the cyclic square instead, which reaches "
            "only a part of the Latin squares."
        )


def rule_of(name: str, settings: dict[str, int]) -> Rule:
    return RULES.create(name, **settings)
