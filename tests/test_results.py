"""Stored results say where they come from, and the demo is still the one that was measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from twoclocks.core.config import build
from twoclocks.runs import RunSettings, load_settings

RESULTS = Path(__file__).parents[1] / "results"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.name)
def test_results_say_where_they_come_from(path: Path) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    assert {"command", "commit", "versions", "machine"} < result.keys()
    # Rows of 42 runs have the first nine digits; since then ``provenance.commit`` refuses fewer than all 40.
    assert result["commit"] and re.fullmatch(r"[0-9a-f]{9}|[0-9a-f]{40}", result["commit"]), "of a clean commit"


def test_the_demo_trains_in_less_than_two_minutes_on_two_cores() -> None:
    result = json.loads((RESULTS / "demo_time.json").read_text(encoding="utf-8"))
    assert result["machine"]["threads"] == 2 and sum(run["seconds"] for run in result["runs"]) < 120


def test_the_demo_opens_the_window_for_every_recorded_seed() -> None:
    result = json.loads((RESULTS / "demo_seeds.json").read_text(encoding="utf-8"))
    assert result["seeds"] >= 5 and set(result["open"].values()) == {result["seeds"]}
    for row in result["runs"]:  # the presets are still the ones that were measured, seeds and threads apart
        seeds = {"training": {"seed": row["seed"], "threads": 2}, "data": {"seed": row["seed"]}}
        kept = row["settings"]["evaluation"]["keep_samples"]  # what is stored does not change what is measured
        settings = load_settings(row["name"], {**seeds, "evaluation": {"seed": row["seed"], "keep_samples": kept}})
        assert build(RunSettings, row["settings"]) == settings, row["name"]
    assert all(run["copy_chance"] < 0.05 and run["tau_mem"]["status"] == "observed" for run in result["runs"])


def test_the_page_of_the_demo_is_small_and_paints_within_a_second() -> None:
    result = json.loads((RESULTS / "page_size.json").read_text(encoding="utf-8"))
    assert result["bytes"] < 1_500_000 and result["bytes_by_part"]["script"] < 8_000
    assert all(screen["first contentful paint"]["median"] < 1000 for screen in result["milliseconds"].values())
