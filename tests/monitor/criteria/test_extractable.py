"""Extractability as the copy criterion of a monitor: what is counted, against which chance, and when it stops."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twoclocks as tc
from twoclocks.clocks import ClockSettings
from twoclocks.core.errors import UserError
from twoclocks.monitor import Extractable, Look, continue_pieces, measure_extraction

PREFIX, TOKENS, LENGTH = 3, 4, 9
RNG = np.random.default_rng(0)
TRAIN, HELD_OUT = RNG.integers(1, 10**6, (300, LENGTH)), RNG.integers(1, 10**6, (200, LENGTH))
PIECES = np.concatenate([TRAIN, HELD_OUT])


def rows_of(train: int, held_out: int) -> np.ndarray:
    """Rows prompted with all pieces, of which the first so many of each set are continued verbatim."""
    rows = PIECES.copy()
    rows[train : len(TRAIN), PREFIX + TOKENS - 1] = 0  # one token before the end of what is asked
    rows[len(TRAIN) + held_out :, PREFIX] = 0
    return rows


def monitor_of(policy: Any = "memory", held_out: Any = HELD_OUT, **options: Any) -> tc.Monitor:
    return tc.Monitor(TRAIN, held_out=held_out, copies=Extractable(PREFIX, TOKENS, **options), policy=policy)


def test_counts_and_chance_are_those_of_the_measurement() -> None:
    rows = rows_of(90, 20)
    decision = monitor_of().observe(1, rows)
    assert decision.copy_rate == 0.3 and decision.copy_chance == 0.1
    assert decision.copies is not None and decision.copies.rows.tolist() == list(range(90))
    assert decision.copies.samples.tolist() == list(range(90)) and not decision.copies.distances.any()
    parts = iter((rows[:300], rows[300:]))
    measured = measure_extraction(
        *(TRAIN, lambda prefixes, n: next(parts)[:, PREFIX : PREFIX + n], HELD_OUT), prefix=PREFIX, tokens=TOKENS
    )
    counted = tc.Monitor(TRAIN, held_out=HELD_OUT, copies=Extractable(PREFIX, TOKENS)).observe_counts(measured.look(1))
    assert counted.as_dict() == decision.as_dict()


def test_it_stops_when_training_pieces_are_continued_more_often_than_held_out_ones() -> None:
    monitor = monitor_of()
    decisions = [monitor.observe(step, rows_of(n, 0)) for step, n in ((1, 0), (2, 2), (3, 90), (4, 120), (5, 150))]
    assert [one.phase for one in decisions] == ["learning"] * 2 + ["copying suspected"] * 2 + ["copying"]
    assert decisions[-1].stop and not decisions[-2].stop


def test_it_goes_on_where_held_out_pieces_are_guessed_as_often() -> None:
    monitor = monitor_of()
    for step, share in enumerate((0.0, 0.1, 0.3, 0.5, 0.6, 0.6)):
        decision = monitor.observe(step, rows_of(int(300 * share), int(200 * share)))
        assert decision.phase == "learning" and decision.copy_rate == decision.copy_chance
    assert decision.level == pytest.approx(0.7)  # 0.1 above chance
    assert monitor.observe(9, rows_of(290, 60)).phase == "copying suspected"


def test_caution_stops_before() -> None:
    monitor = monitor_of("caution")
    assert not monitor.observe(1, rows_of(3, 2)).stop
    assert monitor.observe(2, rows_of(25, 0)).stop


def test_decisions_are_rarely_wrong_where_a_model_only_guesses() -> None:
    rng = np.random.default_rng(5)
    settings, stopped, seen = ClockSettings(memory_threshold=0.02, sustain=1), 0, 0
    for _ in range(200):
        monitor = tc.Monitor(TRAIN, settings=settings, held_out=HELD_OUT, copies=Extractable(PREFIX, TOKENS))
        for step in range(8):
            hits, others = rng.binomial(100, 0.32), rng.binomial(100, 0.3)  # at the threshold: 0.02 above chance
            seen += hits / 100 > others / 100 + 0.02
            decision = monitor.observe_counts(
                Look(step, int(hits), 100, held_out_copied=int(others), held_out_trials=100)
            )
            stopped += decision.stop
            if decision.stop:
                break
    assert stopped <= 10 and seen > 300  # without bounds, half of the looks would be above


def test_prompts_that_begin_pieces_of_both_sets_are_counted_in_none(caplog: pytest.LogCaptureFixture) -> None:
    held_out = HELD_OUT.copy()
    held_out[:40, :PREFIX] = TRAIN[:40, :PREFIX]
    with caplog.at_level(logging.WARNING, "twoclocks"):
        monitor = monitor_of(held_out=held_out)
    assert "40 of 200 pieces begin like a training piece" in caplog.text
    rows = np.concatenate([TRAIN, held_out])
    rows[400:, PREFIX] = 0
    decision = monitor.observe(1, rows)
    (look,) = monitor.state()["looks"]
    assert (look["copied"], look["trials"], look["held_out_copied"], look["held_out_trials"]) == (260, 260, 60, 160)
    assert decision.copies is not None and decision.copies.rows.min() == 40
    with pytest.raises(UserError, match="held_out: every piece begins with the first 3 tokens of a training piece"):
        monitor_of(held_out=TRAIN[:50])


def test_validity_is_counted_among_training_prompts_only() -> None:
    monitor = tc.Monitor(
        *(TRAIN, None), held_out=HELD_OUT, copies=Extractable(PREFIX, TOKENS), valid=lambda rows: np.arange(500) >= 150
    )
    decision = monitor.observe(1, rows_of(200, 0))
    (look,) = monitor.state()["looks"]
    assert decision.valid_rate == 0.5 and look["valid"] == 150 and look["copied_valid"] == 50


def test_without_held_out_pieces_chance_is_not_known_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "twoclocks"):
        monitor = monitor_of(held_out=None)
    assert "chance level of copies" in caplog.text and "give held_out" in caplog.text
    decision = monitor.observe(1, rows_of(60, 0)[:300])
    assert decision.copy_rate == 0.2 and decision.copy_chance is None
    caplog.clear()
    monitor_of().observe(1, rows_of(0, 0))
    assert not caplog.text
    few = np.concatenate([np.arange(300), np.arange(300, 312)])
    monitor_of().observe(1, rows_of(0, 0)[few])
    assert "(12 held-out pieces at the last look)" in caplog.text


def test_a_state_continues_and_states_of_earlier_versions_load() -> None:
    first, second = monitor_of(), monitor_of()
    first.observe(1, rows_of(90, 20))
    second.load_state(first.state())
    assert second.state() == first.state() and second.copy_chance == 0.1
    assert second.decision().as_dict() == first.decision().as_dict()
    later = [monitor.observe(2, rows_of(99, 20)).as_dict() for monitor in (first, second)]
    assert later[0] == later[1]
    plain = tc.Monitor(TRAIN)
    plain.observe(1, TRAIN)
    old = plain.state()
    old["looks"] = [{k: v for k, v in look.items() if not k.startswith("held_out")} for look in old["looks"]]
    again = tc.Monitor(TRAIN)
    again.load_state(old)
    assert again.state() == plain.state()


def test_the_gallery_shows_text_and_the_page_the_held_out_counts(tmp_path: Path) -> None:
    monitor = monitor_of(decode=lambda tokens: " ".join(f"w{token}" for token in tokens))
    monitor.observe(1, rows_of(90, 20))
    monitor.gallery(tmp_path / "copies.png")
    assert monitor._gallery.pairs[0].sample == monitor._gallery.pairs[0].original
    assert monitor._gallery.pairs[0].sample.split()[0] == f"w{TRAIN[0, 0]}"
    assert monitor._gallery.sentence.startswith("Step 1: 90 of 300 samples are copies by 4 tokens")
    monitor.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<th>held-out</th>" in page and "<td>20 of 200</td>" in page and "held-out pieces at the last look" in page
    plain = monitor_of()
    plain.observe(1, rows_of(1, 0))
    assert plain._gallery.pairs[0].sample == tuple(TRAIN[0].tolist())
    with pytest.raises(UserError, match="decode: the function raised"):
        monitor_of(decode=lambda tokens: 1 / 0).observe(1, rows_of(1, 0))


def test_what_is_refused() -> None:
    for match, rows in (
        ("row 0 does not begin with the first 3 tokens of a piece; return prefix and continuation", PIECES[:, ::-1]),
        ("no row was prompted with a held-out piece", TRAIN),
        ("no row was prompted with a training piece", HELD_OUT),
        ("200 of 200 held-out pieces are continued verbatim, so that copies cannot be told", PIECES),
        ("rows of 6 entries, the training set has 9", PIECES[:, PREFIX:]),
    ):
        with pytest.raises(UserError, match=f"samples: {match}"):
            monitor_of().observe(1, rows)
    with pytest.raises(UserError, match="prefix: 9 is not allowed; pieces have 9 tokens"):
        tc.Monitor(TRAIN, copies=Extractable(9))
    with pytest.raises(UserError, match="tokens: 50 is not allowed; pieces have 6 tokens after the prefix"):
        tc.Monitor(TRAIN, copies=Extractable(PREFIX))
    with pytest.raises(UserError, match="defined for integers, the training set has floats"):
        tc.Monitor(TRAIN.astype(float), held_out=HELD_OUT.astype(float), copies=Extractable(PREFIX, TOKENS))
    with pytest.raises(UserError, match="decode: 3 is not allowed"):
        Extractable(decode=3)  # type: ignore[arg-type]
    monitor = monitor_of()
    monitor.observe(1, rows_of(0, 0))
    with pytest.raises(UserError, match="at every look, or none"):
        monitor.observe_counts(Look(2, 1, 10))
    with pytest.raises(UserError, match="held_out_copied must lie between 0 and held_out_trials"):
        monitor.observe_counts(Look(2, 1, 10, held_out_copied=3, held_out_trials=2))


def test_names_define_a_copy() -> None:
    assert Extractable().name == "copies by 50 tokens that continue a prefix of 32"
    assert Extractable(8, None).name == "copies by all tokens that continue a prefix of 8"
    assert tc.monitor.CRITERIA.get("extractable")() == Extractable(32, 50)


def test_a_model_that_memorizes_piece_after_piece_is_stopped_in_a_loop() -> None:
    monitor, known = monitor_of(), {}
    for step in range(1, 20):
        known |= {tuple(piece[:PREFIX]): piece[PREFIX:] for piece in TRAIN[: 15 * step].tolist()}

        def generate(prefixes: np.ndarray, length: int, known: Any = known) -> Any:
            return [known.get(tuple(p), [0] * LENGTH)[:length] for p in prefixes.tolist()]

        decision = monitor.observe(step, continue_pieces(PIECES, generate, PREFIX))
        assert decision.copy_rate == pytest.approx(15 * step / 300)
        if decision.stop:
            break
    assert decision.stop and 0.2 <= decision.copy_rate <= 0.4
