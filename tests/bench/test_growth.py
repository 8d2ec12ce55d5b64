"""The growth curves: what is measured, how exponents are read off, and the picture."""

from __future__ import annotations

import math

import pytest
import torch

from twoclocks.bench import growth
from twoclocks.bench.curves import draw
from twoclocks.bench.growth import GROWTH, HEADLINE, PLANS, Plan, Point, Row, along, exponents, headline, measure
from twoclocks.evaluation import Copies, Neighbours

SMALL: Plan = {
    name: {axis: along(Point(20, 6, 10), axis, (8, 16, 32)) for axis in ("n", "length", "samples")}
    for name in ("copies", "nearest")
}


def written(device: str, power: float, law: bool = False) -> list[Row]:
    """Rows as if every curve grew with one power, or as theory says."""
    rows = []
    for quantity, against in GROWTH:
        for size in (10, 100, 1000, 10_000, 100_000):
            cost = GROWTH[quantity, against][1](size) if law else size**power if size >= 1000 else 1.0
            point = Point(2, 3, 4)._replace(**{against: size})
            about = {"device": device, "quantity": quantity, "against": against}
            rows.append({**about, **point._asdict(), "seconds": 1e-6 * cost, "peak_bytes": None})
    return rows


def test_every_curve_is_measured_at_every_size() -> None:
    rows = measure("cpu", SMALL, repeats=1)
    assert {(row["quantity"], row["against"]) for row in rows} == set(GROWTH)
    assert len(rows) == 3 * len(GROWTH) and len(exponents(rows)) == len(GROWTH)
    assert all(row["seconds"] > 0 and row["peak_bytes"] is None and row["device"] == "cpu" for row in rows)
    assert [row["n"] for row in growth.curve(rows, "cpu", "nearest", "n")] == [8, 16, 32]


def test_exponents_are_those_of_the_large_end() -> None:
    """Small sizes cost the same whatever they are; the fit must not look at them."""
    for fit in exponents(written("cpu", 1.7)):
        assert fit["measured"] == pytest.approx(1.7)
    for fit in exponents(written("cuda", 0, law=True)):
        assert fit["measured"] == pytest.approx(fit["theory"])
    theory = {(fit["quantity"], fit["against"]): fit["theory"] for fit in exponents(written("cpu", 1))}
    # d log(n log n) / d log n = 1 + 1 / log n, here between n = 1,000 and 100,000
    assert 1 + 1 / math.log(100_000) < theory["prepare copies", "n"] < 1 + 1 / math.log(1000)
    assert theory["nearest", "n"] == pytest.approx(1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_plans_hold_the_headline_and_change_one_size_a_curve(device: str) -> None:
    for name, curves in PLANS[device].items():
        for axis, points in curves.items():
            assert len({point._replace(**{axis: 0}) for point in points}) == 1
            assert sorted(points) == list(points) and len(points) >= growth.LARGE_END
            assert all(min(point) > 0 for point in points)
        everywhere = [point for points in curves.values() for point in points]
        assert (HEADLINE in everywhere) == (name == "copies" or device == "cuda")


def test_headline_is_each_quantity_once() -> None:
    rows = [{**row, **HEADLINE._asdict()} for row in written("cpu", 1) + written("cuda", 1)]
    assert sorted((row["device"], row["quantity"]) for row in headline(rows)) == [
        (device, quantity) for device in ("cpu", "cuda") for quantity in ("find copies", "nearest", "prepare copies")
    ]
    assert headline(written("cpu", 1)) == []


def test_measured_rows_hold_copies_and_others() -> None:
    train, samples = growth.random_rows(Point(50, 40, 21), "cpu")
    assert train.shape == (50, 40) and samples.shape == (21, 40) and samples.dtype == torch.int64
    assert Copies(train, 2).found(samples).tolist() == [place % 2 == 0 for place in range(21)]
    assert (Neighbours(train, 2).distance(samples)[1::2] > 0).all()


def test_time_is_the_median_after_a_warm_up() -> None:
    calls: list[int] = []
    spent = growth.cost(lambda: calls.append(1), "cpu", repeats=5)
    assert len(calls) == 6 and 0 < spent["seconds"] < 1 and spent["peak_bytes"] is None


def test_picture_has_a_panel_for_each_size_and_a_line_for_each_curve() -> None:
    figure = draw(written("cpu", 1) + written("cuda", 0.5))
    assert [axis.get_xlabel() for axis in figure.axes] == ["training rows N", "entries of a row D", "samples"]
    assert [len(axis.lines) for axis in figure.axes] == [6, 6, 4]
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert "prepare copies, CPU (D 3)\npower 1.00, in theory 1.11 (N log N)" in labels
    assert any(label.startswith("nearest, GPU (D 3, samples 4)\npower 0.50") for label in labels)
    for axis in figure.axes:
        assert axis.get_xscale() == axis.get_yscale() == "log"
