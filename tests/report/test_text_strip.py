"""Texts on a page: the stored samples beside the training texts they share most with, and what is marked."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_runs import SMALL_MODEL

from twoclocks.report.environment import marked
from twoclocks.report.page import write_report
from twoclocks.report.strip import strip_data
from twoclocks.report.text_strip import text_steps
from twoclocks.runs import Run, load_settings
from twoclocks.runs import run as train


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small GPT that copies its four strings after a hundred steps, and not after the first."""
    evaluation = {"samples": 64, "steps": [1, 10, 80, 160], "loss_rows": 16, "copy_run": 6, "prompts": 0}
    training = {"steps": 160, "batch": 8, "learning_rate": 1e-2}
    change = {"data.n": 4, "rule.length": 16, "model": SMALL_MODEL, "evaluation": evaluation, "training": training}
    folder: Path = tmp_path_factory.mktemp("texts") / "run"
    return train(load_settings("text-small", {**change, "clocks.sustain": 1}), folder)


def test_pairs_are_stored_samples_and_training_texts(texts: Run) -> None:
    found = strip_data(texts).texts
    assert found is not None and (found.length, found.copy_run, found.least) == (16, 6, 2)
    train_texts = set(texts.settings.rule.as_text(texts.evaluator.train))  # type: ignore[attr-defined]
    assert [one.step for one in found.steps] == list(text_steps(texts)) and found.steps[-1].step == 160
    for one in found.steps:
        decoded, outcome = texts.samples(one.step)
        assert one.copies == int(outcome.copied.sum()) and one.samples == len(outcome.copied)
        stored = texts.settings.rule.as_text(decoded.symbols)  # type: ignore[attr-defined]
        lengths = texts.evaluator.reference.run_copies.lengths(decoded.symbols).tolist()
        for k, pair in enumerate(one.pairs):
            assert "".join(text for text, _ in pair.sample) == stored[k]
            assert "".join(text for text, _ in pair.original) in train_texts
            runs = [text for text, common in pair.sample if common]
            assert runs == [text for text, common in pair.original if common]
            assert max(map(len, runs)) == pair.longest == lengths[k]
            assert pair.copied == (pair.longest >= 6) == bool(outcome.copied[k])


def test_the_step_before_copying_is_shown_beside_the_last(texts: Run) -> None:
    clocks, steps = texts.clocks(), text_steps(texts)
    assert clocks.memory.seen and steps == {int(clocks.memory.lower): "last before τ_mem", 160: "last evaluation"}


def test_marks_are_html_and_texts_are_not() -> None:
    assert marked([("<b>", False), ("a & b", True), ("\x1b", False)]) == "&lt;b&gt;<mark>a &amp; b</mark>\\x1b"


def test_the_page_of_a_text_compares_with_held_out_texts_and_names_no_valid_set(texts: Run, tmp_path: Path) -> None:
    page = write_report([texts], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Held-out texts: the value of real texts that were not trained on." in page
    assert "valid set" not in page and "breaks the rule" not in page
