"""From a sweep file to cells: every combination once, with its own key; wrong files are refused before a run starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from twoclocks.core.errors import UserError
from twoclocks.runs import load_settings
from twoclocks.sweeps import Plan, read_plan
from twoclocks.sweeps.grid import axis_values, seed_values


def plan(folder: Path, **spec: Any) -> Plan:
    (folder / "mine.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return read_plan(folder / "mine.yaml")


def test_lists_ranges_and_seeds_are_crossed(tmp_path: Path) -> None:
    grid = {"data.n": [16, 32, 64], "rule.group": {"from": 2, "to": 4}}
    found = plan(tmp_path, base="demo-gpt", grid=grid, seeds={"training": 2, "data": [5, 7]})
    points = {
        (c.settings.data.n, c.settings.rule.group, c.settings.training.seed, c.settings.data.seed) for c in found.cells
    }
    assert points == {(n, g, s, d) for n in (16, 32, 64) for g in (2, 3, 4) for s in (0, 1) for d in (5, 7)}
    assert len(found.cells) == 36 == len({cell.key for cell in found.cells})
    assert found.axes == ["data.n", "rule.group", "training.seed", "data.seed"] and found.name == "mine"
    assert all(cell.key == cell.settings.key() and cell.settings.name == "mine" for cell in found.cells)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([1, "a"], [1, "a"]),
        ({"from": 2, "to": 9, "step": 3}, [2, 5, 8]),
        ({"from": 0.1, "to": 0.4, "step": 0.1}, [0.1, 0.2, 0.3, 0.4]),
        ({"from": 1, "to": 1}, [1]),
        ({"from": 256, "to": 4096, "count": 5, "spacing": "log"}, [256, 512, 1024, 2048, 4096]),
        ({"from": 1e-5, "to": 1e-3, "count": 3, "spacing": "log"}, [1e-5, 1e-4, 1e-3]),
        ({"from": 1, "to": 2, "count": 3}, [1, 2]),  # whole ends: 1.5 is rounded, and 2 comes once
        ({"from": 1.0, "to": 2, "count": 3}, [1.0, 1.5, 2.0]),
        ({"from": 1e-14, "to": 3e-14, "step": 1e-14}, [1e-14, 2e-14, 3e-14]),
    ],
)
def test_ranges(given: Any, expected: list[Any]) -> None:
    assert axis_values("x", given) == expected


@pytest.mark.parametrize(
    "given",
    [
        [],
        5,
        "1, 2",
        {"from": 1},
        {"from": 3, "to": 1},
        {"from": 1, "to": 3, "step": 0},
        {"from": 1, "to": 3, "step": 1, "count": 2},
        {"from": 1, "to": 3, "count": 1},
        {"from": 0, "to": 3, "count": 3, "spacing": "log"},
        {"from": 1, "to": 3, "count": 3, "spacing": "cubic"},
        {"from": 1, "to": 3, "by": 1},
        {"from": "a", "to": "b"},
    ],
)
def test_axes_that_cannot_be_are_refused(given: Any) -> None:
    with pytest.raises(UserError, match=r"grid\.data\.n"):
        axis_values("data.n", given)


def test_seeds_are_counts_or_lists() -> None:
    assert seed_values("training", 3) == [0, 1, 2] and seed_values("data", [4]) == [4]
    for section, given in (("model", 2), ("data", 0), ("data", True), ("data", "2"), ("data", [0.5])):
        with pytest.raises(UserError, match=f"seeds.{section}"):
            seed_values(section, given)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"grid": {"data.m": [5]}}, r"data\.m: 'm' is unknown.*in the cell data\.m = 5"),
        ({"grid": {"data.n": [16, 10**9]}}, r"data\.n: 1000000000 is not allowed.*in the cell data\.n = 1000000000"),
        ({"grid": {"data.n": [16, 16.0]}}, "are the same run"),
        ({"base": "demmo"}, "did you mean 'demo'"),
        ({"gird": {}}, "did you mean 'grid'"),
        ({"grid": [1]}, "grid: .*use a mapping"),
        ({"grid": {"data.seed": {"from": 1, "to": 10**7}}}, "use at most 100,000"),
        ({"set": {"training.stepz": 5}}, "did you mean 'steps'"),
        ({"grid": {"data.n": {"from": 2, "to": 10**12}}}, "use at most 100,000"),
        ({"grid": {"data.n": {"from": 2, "to": float("inf")}}}, r"grid\.data\.n"),
        ({"seeds": {"training": 10**12}}, r"seeds\.training"),
        ({"grid": {"training.seed": [3]}, "seeds": {"training": 2}}, "an axis of the grid already"),
        ({"grid": {"data.n": [16]}, "set": {"data": {"n": 5}}}, r"data\.n: 5 .* axis of the grid"),
        ({"name": "../../evil", "set": {"name": "ok"}}, "is not a path"),
        ({"set": {"name": "ok"}}, "belongs to the sweep"),
        ({"grid": {"name": ["a", "b"]}}, "belongs to the sweep"),
    ],
)
def test_wrong_files_are_refused_with_the_cell(tmp_path: Path, spec: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        plan(tmp_path, **spec)


def test_a_key_is_the_run_whatever_it_is_called_and_however_it_was_reached(tmp_path: Path) -> None:
    one = plan(tmp_path, base="demo-gpt", set={"data.n": 64}, name="a").cells[0]
    two = plan(tmp_path, base="demo-gpt", grid={"data.n": [64]}, name="b", description="same").cells[0]
    assert one.key == two.key == load_settings("demo-gpt", {"data.n": 64, "training.threads": 1}).key()
    assert plan(tmp_path, base="demo-gpt").cells[0].key != one.key


def test_cells_use_one_thread_by_default_and_sections_can_be_an_axis(tmp_path: Path) -> None:
    rules = [{"name": "parity", "length": 24, "group": 2}, {"name": "exact_k", "length": 24, "k": 6}]
    found = plan(tmp_path, base="demo-gpt", grid={"rule": rules})
    assert [type(cell.settings.rule).__name__ for cell in found.cells] == ["Parity", "ExactK"]
    assert {cell.settings.training.threads for cell in found.cells} == {1}
    assert plan(tmp_path, set={"training.threads": 2}).cells[0].settings.training.threads == 2
    overridden = read_plan(tmp_path / "mine.yaml", ["--training.threads", "3", "--data.n=20"])
    assert (overridden.cells[0].settings.training.threads, overridden.cells[0].settings.data.n) == (3, 20)
    plan(tmp_path, grid={"data.n": [16, 32]})
    with pytest.raises(UserError, match="axis of the grid"):
        read_plan(tmp_path / "mine.yaml", ["--data.n", "5"])
