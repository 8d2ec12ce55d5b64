"""τ_ext: when training texts are continued verbatim, beyond what guessing continues of held-out ones."""

from __future__ import annotations

import pytest

from twoclocks.clocks.series import Series
from twoclocks.clocks.settings import ClockSettings
from twoclocks.runs.columns import clock_columns

STEPS = (10, 20, 40, 80, 160, 320, 640, 1280)
COLUMNS = clock_columns(())


def rows(extracted: list[int], held_out: list[int] | None = None, prompts: int = 128) -> list[dict[str, float]]:
    """No sample is ever a copy; so many texts of ``prompts`` are continued."""
    found = []
    for k, step in enumerate(STEPS):
        row: dict[str, float] = {"step": step, "trials": 512, "sample_memorization_hits": 0}
        row |= {"extracted_hits": extracted[k], "extracted_trials": prompts}
        if held_out is not None:
            row |= {"extracted_held_out_hits": held_out[k], "extracted_held_out_trials": prompts}
        found.append(row)
    return found


def clocks(settings: ClockSettings, given: list[dict[str, float]]):  # type: ignore[no-untyped-def]
    return settings.read(Series.from_rows(given, COLUMNS), 0.0)


def test_the_onset_is_that_of_the_texts_and_not_of_the_samples() -> None:
    found = clocks(ClockSettings(confidence=0), rows([0, 0, 0, 0, 64, 100, 128, 128]))
    assert (found.extraction.lower, found.extraction.upper) == (80, 160) and not found.memory.seen
    assert found.extraction.definition.startswith("training texts continued verbatim above chance + 0.1")
    assert found.as_json()["tau_ext"]["upper"] == 160


def test_bounds_are_those_of_the_number_of_prompts() -> None:
    """16 of 128 are above a tenth, but not with confidence; 512 of 4,096 are."""
    few, many = (clocks(ClockSettings(), rows([0, 0, 0, 0, *[k // 8] * 4], prompts=k)).extraction for k in (128, 4096))
    assert not few.seen and many.upper == 160


def test_guessing_is_the_chance_level() -> None:
    extracted = [0, 26, 26, 26, 26, 40, 60, 128]
    free = clocks(ClockSettings(confidence=0), rows(extracted, [0] * 8)).extraction
    assert free.upper == 20
    guessed = clocks(ClockSettings(confidence=0), rows(extracted, [0, 26, 25, 26, 26, 26, 26, 26])).extraction
    assert guessed.upper == 320  # 26 of 128 are guessed, so 39 are needed
    assert guessed.threshold == pytest.approx(0.1 + 26 / 128)


def test_without_prompts_or_without_room_there_is_none() -> None:
    assert clocks(ClockSettings(), rows([0] * 8, [120] * 8)).extraction is None
    without = [{key: value for key, value in row.items() if "extracted" not in key} for row in rows([0] * 8)]
    found = clocks(ClockSettings(), without)
    assert found.extraction is None and "tau_ext" not in found.as_json()
    partly = [*without[:1], *rows([0] * 8)[1:]]
    assert clocks(ClockSettings(), partly).extraction is None
