"""One conversion from stored rows to counts, whatever the format of the rows."""

from __future__ import annotations

import pytest

from twoclocks.clocks.series import Look, Series, SeriesColumns

COLUMNS = SeriesColumns(
    copied="copied",
    valid="valid",
    train_loss="train",
    held_out_loss="held",
    gap_error="error",
    parts={"row": "row_valid"},
)
OLD = {"step": 10.0, "trials": 300, "copied": 1 / 300, "valid": 299 / 300, "row_valid": 0.5, "train": 1.0, "held": 1.5}
NEW = {
    **{"step": 20, "trials": 300, "copied_hits": 7, "valid_hits": 200, "train": 1.0, "held": 1.25, "error": 0.1},
    **{"row_valid_hits": 900, "row_valid_trials": 1200},
}


def test_rows_of_both_formats_give_exact_integers() -> None:
    series = Series.from_rows([OLD, NEW], COLUMNS)
    assert (series.steps, series.trials, series.copied, series.valid) == ([10, 20], [300, 300], [1, 7], [299, 200])
    for numbers in (series.steps, series.trials, series.copied, series.valid):
        assert numbers is not None and all(type(number) is int for number in numbers)
    assert series.parts == {"row": [150.0, 225.0]}  # pieces of one sample are one trial


def test_the_gap_has_bounds_only_where_every_row_has_its_error() -> None:
    mixed, certain = Series.from_rows([OLD, NEW], COLUMNS), Series.from_rows([NEW], COLUMNS)
    assert mixed.gaps == [0.5, 0.25] and mixed.gap_errors is None and certain.gap_errors == [0.1]
    without = {key: value for key, value in NEW.items() if key != "held"}
    assert Series.from_rows([without], COLUMNS).gaps is None


def test_a_row_is_the_same_look_alone_and_in_a_series() -> None:
    assert Look.from_row(NEW, COLUMNS) == Look(20, 7, 300, 200, 0.25, 0.1)
    looks = [Look.from_row(row, COLUMNS) for row in (OLD, NEW)]
    assert Series.from_looks(looks, "near copies").copies == "near copies"
    assert Series.from_looks(looks).valid == Series.from_rows([OLD, NEW], COLUMNS).valid


def test_kinds_of_pieces_that_a_run_did_not_store_are_left_out() -> None:
    bare = {key: value for key, value in NEW.items() if not key.startswith("row_valid")}
    assert Series.from_rows([bare], COLUMNS).parts == {}
    with pytest.raises(KeyError):
        Series.from_rows([{"step": 1, "trials": 5}], COLUMNS)


def test_kinds_of_pieces_that_only_some_rows_have_are_left_out() -> None:
    bare = {key: value for key, value in NEW.items() if not key.startswith("row_valid")}
    for rows in ([bare, {**NEW, "step": 30}], [OLD, bare], [OLD, bare, {**NEW, "step": 30}]):
        series = Series.from_rows(rows, COLUMNS)
        assert series.parts == {} and len(series.copied) == len(rows)
