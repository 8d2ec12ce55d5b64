"""Copies above the threshold that are not confirmed: the verdict is "suspected", and the window ends before them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from twoclocks import cli
from twoclocks.clocks import Clocks, ClockSettings, Onset, Series, onset
from twoclocks.core.errors import SettingError

STEPS = [100, 200, 300, 400, 500, 600]
LEARNED = [0, 950, 1000, 1000, 1000, 1000]  # the rule, between steps 100 and 200


def read(copied: list[int], valid: list[int] | None = LEARNED, confidence: float = 0.95) -> Clocks:
    """Clocks of counts among 1,000 samples per look."""
    steps = STEPS[: len(copied)]
    valid = None if valid is None else valid[: len(copied)]
    series = Series(steps, [1000] * len(copied), copied, valid)
    return ClockSettings(rule_threshold=0.8, confidence=confidence).read(series, 0.0, changes=False)


@pytest.mark.parametrize("confidence", [0.95, 0])
def test_a_run_that_ends_while_it_copies_is_not_open_to_its_end(confidence: float) -> None:
    clocks = read([0, 0, 0, 0, 0, 620], confidence=confidence)
    assert clocks.memory.status == "right-censored" and clocks.memory.suspected == (500, 600)
    assert clocks.verdict == "suspected" and clocks.suspected == 600 and clocks.window == (200, 500)
    assert str(clocks) == "copying suspected since step 600, unconfirmed; window 200–500"
    plain = clocks.as_json()
    assert (plain["verdict"], plain["suspected"], plain["window"]) == ("suspected", 600, [200, 500])


def test_the_suspicion_begins_at_the_first_look_of_a_streak_that_is_cut_short() -> None:
    clocks = read([0, 0, 0, 0, 300, 620])
    assert clocks.verdict == "suspected" and clocks.suspected == 500 and clocks.window == (200, 400)


def test_a_streak_that_completes_is_an_onset_and_no_suspicion() -> None:
    clocks = read([0, 0, 0, 300, 620, 700])
    assert clocks.memory.status == "observed" and clocks.memory.suspected == (300, 400)
    assert clocks.suspected is None and clocks.verdict == "open" and clocks.window == (200, 300)


def test_a_copy_rate_that_may_be_chance_is_not_suspected() -> None:
    clocks = read([0, 0, 0, 0, 0, 110])  # its lower bound is below 0.1
    assert clocks.memory.suspected is None and clocks.verdict == "open" and clocks.window == (200, math.inf)


def test_an_excursion_with_a_confident_return_ends_the_window_before_it() -> None:
    clocks = read([0, 0, 0, 300, 0, 0])
    assert clocks.suspected is None and clocks.excursion == 400 and clocks.memory.lower == 600
    assert clocks.verdict == "open" and clocks.window == (200, 300)
    assert str(clocks) == "open 200–300; copies above the threshold at step 400, later below it again"
    assert clocks.as_json()["excursion"] == 400 and clocks.as_json()["suspected"] is None


def test_an_excursion_before_a_lasting_onset_ends_the_window_too() -> None:
    later = Series([*STEPS, 700, 800, 900], [1000] * 9, [0, 0, 300, 0, 0, 0, 500, 600, 700], [*LEARNED, *[1000] * 3])
    clocks = ClockSettings(rule_threshold=0.8).read(later, 0.0, changes=False)
    assert (clocks.memory.lower, clocks.memory.upper) == (600, 700)
    assert clocks.verdict == "open" and clocks.window == (200, 200) and clocks.excursion == 300
    assert str(clocks).startswith("open at 200; copies above the threshold at step 300")


def test_copies_after_an_excursion_are_suspected_again() -> None:
    clocks = read([0, 0, 0, 300, 0, 620])
    assert clocks.verdict == "suspected" and clocks.suspected == 600 and clocks.window == (200, 300)
    assert str(clocks) == (
        "copying suspected since step 600, unconfirmed; window 200–300; "
        "copies above the threshold at step 400, later below it again"
    )


def test_a_rule_that_is_learned_after_the_suspicion_has_no_window() -> None:
    late = [0, 0, 0, 950, 1000, 1000]
    clocks = read([0, 0, 300, 105, 105, 105], late)
    assert clocks.rule.seen and clocks.verdict == "suspected" and clocks.suspected == 300 and clocks.window is None
    assert str(clocks) == "copying suspected since step 300, unconfirmed"
    withdrawn = read([0, 0, 300, 0, 0, 0], late)  # copies came first, and then no longer
    assert withdrawn.rule.upper <= withdrawn.memory.lower and withdrawn.excursion == 300
    assert withdrawn.verdict == "unknown" and withdrawn.window is None
    assert str(withdrawn) == "unknown; copies above the threshold at step 300, later below it again"


def test_copying_is_suspected_without_a_rule_too() -> None:
    clocks = read([0, 0, 0, 0, 0, 620], None)
    assert clocks.verdict == "suspected" and clocks.suspected == 600 and clocks.window is None
    assert read([0, 0, 0, 620, 700, 700], None).verdict == "unknown"  # confirmed; the order is not known
    assert read([0] * 6, None).verdict == "unknown"


@pytest.mark.parametrize("steps", [[0, 10], [10, 20]])
def test_copies_from_the_first_look_on_leave_no_window(steps: list[int]) -> None:
    series = Series(steps, [1000, 1000], [620, 620], [1000, 1000])
    clocks = ClockSettings(sustain=3).read(series, 0.0, changes=False)
    assert clocks.memory.suspected == (0, steps[0]) and clocks.suspected == steps[0]
    assert clocks.verdict == "suspected" and clocks.window is None


def test_a_rule_that_is_there_at_step_0_together_with_copies_has_no_window() -> None:
    for copied in ([620, 620, 105, 105], [620, 0, 0, 0]):
        series = Series([0, 10, 20, 30], [1000] * 4, copied, [1000] * 4)
        clocks = ClockSettings().read(series, 0.0, changes=False)
        assert clocks.rule.upper == 0 and clocks.memory.suspected == (0, 0) and clocks.window is None
        assert clocks.verdict == ("unknown" if clocks.excursion == 0 else "suspected")


def test_a_window_that_one_look_shows_is_called_so() -> None:
    clocks = Clocks(Onset(300, 400, "observed"), Onset(400, math.inf, "right-censored", suspected=(400, 500)))
    assert str(clocks) == "copying suspected since step 500, unconfirmed; window at 400"


def test_suspicions_pass_through_json_and_old_json_has_none() -> None:
    for copied in ([0, 0, 0, 300, 0, 620], [0, 0, 0, 0, 0, 620], [0] * 6):
        one = read(copied).memory
        assert Onset.from_json(json.loads(json.dumps(one.as_json()))) == one
    plain = read([0, 0, 0, 300, 0, 620]).memory.as_json()
    assert json.loads(json.dumps(plain["suspected"])) == [300, 400] and plain["suspected_again"] == 600
    old = {key: value for key, value in plain.items() if not key.startswith("suspected")}
    assert Onset.from_json(old).suspected is None and Onset.from_json(old).lower == 500


def test_results_of_earlier_versions_still_load() -> None:
    files = sorted((Path(__file__).parents[2] / "results").glob("*.json"))
    found: list[Onset] = []

    def collect(plain: object) -> None:
        if isinstance(plain, dict) and {"lower", "upper", "status"} <= plain.keys():
            found.append(Onset.from_json(plain))
        for value in plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ():
            collect(value)

    for file in files:
        collect(json.loads(file.read_text(encoding="utf-8")))
    assert len(found) > 100


@pytest.mark.parametrize("bad", [(600, 500), (-1, 500), (500, 500)])
def test_impossible_suspicions_are_refused(bad: tuple[float, float]) -> None:
    with pytest.raises(SettingError, match="suspected"):
        Onset(400, math.inf, "right-censored", suspected=bad)


def test_every_onset_knows_its_suspicion() -> None:
    found = onset([10, 20, 30], [0, 0, 90], 100, threshold=0.3)
    assert found.suspected == (20, 30) and found.suspected_again is None


def test_the_command_and_its_json_name_the_suspicion(capsys: pytest.CaptureFixture[str]) -> None:
    """A run of an old format that ends above the threshold, in one evaluation only."""
    path = str(Path(__file__).parents[1] / "fixtures" / "format-2")
    assert cli.main(["clocks", path]) == 0
    assert "suspected" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["clocks", path, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["suspected"], found["window"]) == ("suspected", 600, [48, 438])
    assert found["tau_mem"]["suspected"] == [438, 600]
