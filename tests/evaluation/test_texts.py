"""Runs and distances of texts, against slow searches; copies by the length of a run, with held-out texts as chance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from twoclocks import rules
from twoclocks.data.encodings import Decoded
from twoclocks.data.sets import natural_held_out, training_set
from twoclocks.evaluation import EvaluationSettings, Evaluator
from twoclocks.evaluation.verbatim import RunCopies
from twoclocks.rules.text import Text

RUN = 12


def longest_run(row: list[int], texts: list[list[int]]) -> int:
    """The longest run of a row that stands in a text, by trying all."""

    def stands(part: list[int]) -> bool:
        return any(text[k : k + len(part)] == part for text in texts for k in range(len(text) - len(part) + 1))

    lengths = (
        end - start for start in range(len(row)) for end in range(start + 1, len(row) + 1) if stands(row[start:end])
    )
    return max(lengths, default=0)


def spliced(train: Tensor, other: Tensor, lengths: list[int]) -> Tensor:
    """Rows of ``other`` of which so many tokens, from a place on, are those of a training row."""
    rows = other[: len(lengths)].clone()
    for row, known, length in zip(rows, train, lengths, strict=False):
        row[3 : 3 + length] = known[5 : 5 + length]
    return rows


@pytest.fixture(scope="module")
def rule() -> Text:
    found = rules.create("text", length=32)
    assert isinstance(found, Text)
    return found


def test_runs_and_copies_are_those_of_a_slow_search(rule: Text) -> None:
    train, held_out = training_set(rule, 20), natural_held_out(rule, training_set(rule, 20))
    assert held_out is not None
    samples = spliced(train, held_out, [0, 4, 8, 11, 12, 13, 20, 24])
    slow = [longest_run(row, train.tolist()) for row in samples.tolist()]
    copies = RunCopies(train, RUN)
    assert copies.lengths(samples).tolist() == slow and copies.found(samples).tolist() == [run >= RUN for run in slow]
    assert max(slow) >= 24 and min(slow) < RUN
    assert RunCopies(train, 1000).found(torch.cat([train, samples])).sum() == 20  # at most a whole text is asked for


def test_columns_and_chance_levels(rule: Text) -> None:
    train = training_set(rule, 20)
    held_out = natural_held_out(rule, train)
    assert held_out is not None
    held_out = held_out[:60]
    evaluator = Evaluator(rule, train, EvaluationSettings(copy_run=RUN), held_out=held_out)
    samples = torch.cat([train[:5], held_out[:15]])
    row = evaluator(Decoded(samples, torch.zeros(20)))
    runs = np.array([longest_run(one, train.tolist()) for one in samples.tolist()])
    unseen = np.array([longest_run(one, train.tolist()) for one in held_out.tolist()])
    differ = (samples[:, None] != train[None]).double().mean(dim=2).amin(dim=1)
    assert row["sample_memorization"] == (runs >= RUN).mean() and row["verbatim_run"] == pytest.approx(runs.mean())
    assert row["verbatim_run_median"] == np.quantile(runs, 0.5) and row["verbatim_run_high"] == np.quantile(runs, 0.9)
    assert row["text_distance"] == pytest.approx(float(differ.mean())) and row["text_distance_low"] == 0
    assert row["verbatim_run_low"] == pytest.approx(np.quantile(runs, 0.1))
    assert row["text_distance_high"] == pytest.approx(np.quantile(differ.numpy(), 0.9))
    apart = (held_out[:, None] != train[None]).double().mean(dim=2).amin(dim=1)
    chance = {column.name: column.chance_rule for column in evaluator.columns()}
    assert chance["sample_memorization"] == (unseen >= RUN).mean() and chance["verbatim_run"] == pytest.approx(
        unseen.mean()
    )
    assert chance["text_distance"] == pytest.approx(float(apart.mean())) != 0
    assert "sample_accuracy" not in row and "image_distance" not in row
    words = {column.name: column.about for column in evaluator.columns()}["sample_memorization"]
    assert words == "samples of which 12 tokens in a row occur in a training text"
