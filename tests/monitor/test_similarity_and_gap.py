"""Mean similarity and loss gap of each look: in the decision, the stored state, states without them, and the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import twoclocks as tc
from twoclocks.clocks.series import Look

RNG = np.random.default_rng(0)
TRAIN, HELD_OUT = RNG.normal(size=(20, 12)), RNG.normal(size=(40, 12))


def watched(looks: int, losses: bool = True) -> tc.Monitor:
    """A monitor by correlation, whose samples are training rows with less noise at each look."""
    settings = tc.clocks.ClockSettings(sustain=2)
    monitor = tc.Monitor(TRAIN, held_out=HELD_OUT, copies="correlation", settings=settings, policy="never")
    for look in range(looks):
        samples = TRAIN + (looks - look) * np.random.default_rng(look).normal(size=TRAIN.shape)
        given = (np.full(9, 0.5) + 0.001 * np.arange(9), np.full(9, 0.5 + 0.1 * look) + 0.001 * np.arange(9))
        monitor.observe(look + 1, samples, *(given if losses else (None, None)))
    return monitor


def test_the_similarity_is_the_mean_largest_correlation() -> None:
    monitor = watched(0)
    samples = RNG.normal(size=(30, 12))
    found = monitor.observe(1, samples).similarity
    rows = [max(np.corrcoef(one, row)[0, 1] for row in TRAIN) for one in samples]
    assert found == pytest.approx(np.mean(rows), abs=1e-9)
    assert tc.Monitor(TRAIN, held_out=HELD_OUT, copies="ratio").observe(1, samples).similarity is None


def test_both_are_in_the_decision_and_survive_the_stored_state() -> None:
    monitor = watched(5)
    known = monitor.decision().as_dict()
    assert known["loss_gap"] == pytest.approx(0.4) and known["tau_gap"] == 2
    assert known["similarity"] == monitor.state()["looks"][-1]["similarity"] > 0.5
    again = watched(0)
    again.load_state(monitor.state())
    assert again.decision().as_dict() == known and again.state() == monitor.state()
    without = watched(2, losses=False).decision().as_dict()
    assert not {"loss_gap", "tau_gap"} & set(without)


def test_a_state_from_before_the_similarity_still_loads() -> None:
    state = watched(5).state()
    state["looks"] = [{key: value for key, value in look.items() if key != "similarity"} for look in state["looks"]]
    old = watched(0)
    old.load_state(state)
    assert old.decision().similarity is None and old.decision().loss_gap == pytest.approx(0.4)
    old.observe(6, TRAIN, 0.5, 0.9)
    assert old.decision().similarity is None  # of some looks it is not known


def test_the_page_shows_both(tmp_path: Path) -> None:
    watched(5).report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The gap between held-out and training loss has opened between the steps 1 and 2 (τ_gap)." in page
    assert "<th>similarity</th><th>loss gap</th>" in page and "mean cosine of the samples" in page
    watched(1).report(tmp_path / "page.html")
    assert "training loss has not opened (τ_gap)" in (tmp_path / "page.html").read_text(encoding="utf-8")
    watched(1, losses=False).report(tmp_path / "page.html")
    assert "τ_gap" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_similarity_that_is_no_number_is_refused() -> None:
    for wrong in (float("nan"), "high"):
        with pytest.raises(tc.UserError, match=r"similarity = .* is not finite, or no number; leave it out"):
            watched(0).observe_counts(Look(1, 0, 10, similarity=wrong))  # type: ignore[arg-type]
