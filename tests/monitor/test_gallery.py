"""Galleries and pages: what is drawn is what was matched."""

from __future__ import annotations

import json
import pickle
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import twoclocks as tc
from twoclocks.core.errors import UserError
from twoclocks.monitor.gallery import as_picture
from twoclocks.monitor.gallery_text import aligned, marked_lines
from twoclocks.monitor.page import write_page
from twoclocks.monitor.state import MonitorState

RULE = tc.rules.create("parity", length=24, group=2)
TRAIN = tc.data.training_set(RULE, n=40, seed=0)
IMAGES = np.random.default_rng(0).normal(size=(30, 3, 8, 8)).astype(np.float32)
TEXTS = [f"the {a} of {b} was seen in the {c} by {a} and {b} and {c}" for a in "abc" for b in "def" for c in "gh"]


def texts_of(figure: object) -> str:
    from matplotlib.text import Text

    return " ".join(text.get_text() for text in figure.findobj(Text))  # type: ignore[attr-defined]


def test_copies_are_listed_nearest_first_with_the_rows_as_given() -> None:
    train = np.concatenate([IMAGES[:1], IMAGES[:1], IMAGES])  # repetitions: the first of them is the original
    noise = np.array([0.2, 0.01, 0.1])[:, None, None, None] * IMAGES[10:13]
    decision = tc.Monitor(train).observe(7, np.concatenate([IMAGES[[5, 0, 3]] + noise, -IMAGES[:4]]))
    assert decision.copies is not None
    assert decision.copies.samples.tolist() == [1, 2, 0] and decision.copies.rows.tolist() == [0, 5, 7]
    assert (np.diff(decision.copies.distances) > 0).all() and len(decision.copies) == 3
    assert decision.copy_rate == 3 / 7


def test_a_gallery_shows_samples_beside_their_originals(tmp_path: Path) -> None:
    monitor = tc.Monitor(IMAGES)
    monitor.observe(7, np.concatenate([IMAGES[[5, 3]], -IMAGES[:4]]))
    figure = monitor.gallery(tmp_path / "copies.png")
    assert (tmp_path / "copies.png").read_bytes().startswith(b"\x89PNG")
    upper, lower = (figure.axes[place].images[0].get_array() for place in (0, 6))
    assert np.array_equal(upper, lower) and upper.shape == (8, 8, 3)  # a sample that equals its original
    assert "copy of 5" in texts_of(figure) and "2 of 6 samples are copies" in texts_of(figure).replace("\n", " ")


def test_a_gallery_without_copies_says_so() -> None:
    monitor = tc.Monitor(IMAGES)
    assert "Nothing was observed" in texts_of(monitor.gallery()).replace("\n", " ")
    monitor.observe(1, -IMAGES)
    assert "no copies" in texts_of(monitor.gallery()).replace("\n", " ")
    exact = tc.Monitor(TRAIN)
    exact.observe(1, RULE.sample(20, 1))
    assert "nothing to draw" in texts_of(exact.gallery()).replace("\n", " ")


def test_grids_frame_the_entries_that_differ() -> None:
    from matplotlib.patches import Rectangle

    monitor = tc.Monitor(TRAIN, copies=tc.monitor.Hamming(2))
    samples = TRAIN[:1].clone()
    samples[0, 5] ^= 1
    monitor.observe(1, samples)
    frames = [patch for patch in monitor.gallery().axes[0].patches if isinstance(patch, Rectangle)]
    assert [frame.get_xy() for frame in frames] == [(4.5, -0.5)]


def test_rows_become_pictures() -> None:
    assert as_picture(np.zeros((3, 8, 8))).shape == (8, 8, 3) and as_picture(np.zeros((8, 8, 1))).shape == (8, 8)
    assert as_picture(np.arange(100)).shape == (10, 10) and as_picture(np.arange(24)).shape == (1, 24)


def test_texts_are_aligned_and_differing_characters_marked() -> None:
    assert aligned(["ab", "cd"], ["ab", "x", "cd"]) == ("ab · cd", "ab x cd", [False] * 3 + [True] + [False] * 3)
    sample, training = marked_lines("one two three four", "zero one two tree four")
    assert "".join(text for _, text, marked in sample if marked) == "····three"
    assert "".join(text for _, text, marked in training if marked) == "zerotree·"
    monitor = tc.Monitor(TEXTS, copies=tc.monitor.Verbatim(6))
    decision = monitor.observe(1, ["zz " + TEXTS[3] + " yy", "nothing like it at all"])
    assert decision.copies is not None and decision.copies.rows.tolist() == [3]
    assert "copy of 3" in texts_of(monitor.gallery())
    assert all(token in texts_of(tc_gallery_of_tokens()) for token in ("11", "copy of 0"))


def tc_gallery_of_tokens() -> object:
    monitor = tc.Monitor([[11, 12, 13, 14], [21, 22, 23, 24, 25]], copies=tc.monitor.Verbatim(3))
    monitor.observe(1, [[1, 11, 12, 13]])
    return monitor.gallery()


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.sources = "", []
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self.words += data + " "

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for key, value in attrs if key in ("src", "href")]


def test_the_page_says_what_the_decision_says_and_loads_nothing(tmp_path: Path) -> None:
    monitor = tc.Monitor(TRAIN, RULE)
    for step in (100, 200, 300):
        monitor.observe(step, RULE.sample(400, step))
    monitor.observe(400, TRAIN)
    monitor.report(tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    words = " ".join(page.words.split())
    assert "Copying is suspected since step 400, but not confirmed." in words and "40 of 40" in words
    assert monitor.decision().reason in words
    assert all(source.startswith(("data:", "#")) for source in page.sources) and len(page.sources) > 0


def test_the_page_can_be_written_from_the_stored_state_alone(tmp_path: Path) -> None:
    monitor = tc.Monitor(IMAGES)
    for step in (1, 2, 3):
        monitor.observe(step, IMAGES)
    monitor.report(tmp_path / "whole.html")
    state = json.loads(json.dumps(monitor.state()))
    write_page(MonitorState.from_json(state), tmp_path / "state.html")
    whole, alone = ((tmp_path / name).read_text(encoding="utf-8") for name in ("whole.html", "state.html"))
    assert "Copying has begun at or before step 1 (τ_mem)." in alone
    assert Page(alone).words.split("Copies beside")[0] == Page(whole).words.split("Copies beside")[0]
    assert "data:image/png" in whole and "data:image/png" not in alone
    with pytest.raises(UserError, match="nothing was observed"):
        tc.Monitor(IMAGES).report(tmp_path / "none.html")


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    def hostile(samples: np.ndarray, train: np.ndarray) -> np.ndarray:
        return np.zeros(len(samples))

    hostile.__qualname__ = "<script>alert(1)</script>"
    monitor = tc.Monitor(IMAGES, copies=tc.monitor.Distance(hostile, 1.0))
    monitor.observe(1, IMAGES)
    monitor.report(tmp_path / "page.html")
    assert "<script>" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_decision_is_flat_numbers_and_can_be_sent_to_another_process() -> None:
    monitor = tc.Monitor(TRAIN, RULE)
    for step in (1, 2, 3):
        decision = monitor.observe(step, TRAIN)
    flat = decision.as_dict()
    assert all(type(value) is float for value in flat.values())
    assert flat["copy_rate"] == 1 and flat["phase"] == 3 and flat["stop"] == 1 and flat["tau_mem"] == 1
    assert flat["copy_rate_low"] <= 1 <= flat["copy_rate_high"] and "copying_suspected_since" not in flat
    again = pickle.loads(pickle.dumps(decision))
    assert again.as_dict() == flat and again.reason == decision.reason and again.forecast is None
