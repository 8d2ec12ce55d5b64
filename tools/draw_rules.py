"""Draw docs/rules-bits.png and docs/rules-symbols.png: samples of every registered rule (P1 Figs. 5 and 6).

python tools/draw_rules.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

from twoclocks.core.theme import picture, style
from twoclocks.report.montage import draw_montage, montage_data
from twoclocks.rules import RULES
from twoclocks.store.files import write_atomic

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    shown = {name: RULES.create(name, **cls.examples[0]) for name, cls in RULES.items() if cls.examples}
    bits = [name for name, rule in shown.items() if rule.symbols == 2]
    symbols = [name for name in shown if name not in bits]
    families = ("parity", "exact_k", "row_k", "row_variable_k", "global_k", "row_latin", "latin", "sudoku", "rhm")
    rank = {name: place for place, name in enumerate(families)}
    for file, names, samples, columns in (("rules-bits.png", bits, 25, None), ("rules-symbols.png", symbols, 6, 3)):
        ordered = sorted(names, key=lambda name: (rank.get(name.removesuffix("_cyclic"), len(rank)), name))
        with matplotlib.rc_context(style()):
            figure = draw_montage(montage_data(ordered, samples, columns))
        write_atomic(DOCS / file, picture(figure, dpi=130))


if __name__ == "__main__":
    main()
