from __future__ import annotations

import numpy as np

from twoclocks.core.theme import symbol_colours
from twoclocks.report.montage import draw_montage, montage_data, tiled
from twoclocks.rules import RULES, Sudoku


def test_every_rule_has_its_samples_in_the_picture() -> None:
    info = montage_data(RULES.names(), samples=4)
    assert [row[0].title.split("(")[0] for row in info.rows] == RULES.names()
    sudoku = next(row[0] for row in info.rows if row[0].title == "sudoku(2, 3)")
    assert np.array_equal(sudoku.samples, Sudoku().sample(4, seed=0).numpy())
    picture = tiled(sudoku, zoom=1)
    assert picture.shape == (13, 13) and (picture[6] == -1).all() and (picture[:, 6] == -1).all()
    assert np.array_equal(picture[7:, :6], sudoku.samples[2])
    assert len(draw_montage(info).axes) >= len(RULES.names())


def test_symbols_have_different_colours() -> None:
    for symbols in (2, 5, 6, 16, 24):
        assert len(set(symbol_colours(symbols))) == symbols
