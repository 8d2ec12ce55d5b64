"""Runs with omitted contents or transposed data: everything that makes the training set again makes the same one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import SMALL_MODEL, TINY

import twoclocks as tc
from twoclocks.analysis.twins import TwinsError, check_twins
from twoclocks.core.config import merge
from twoclocks.core.errors import UserError
from twoclocks.core.rows import is_member
from twoclocks.data.omission import lacks
from twoclocks.dissection.subject import RunSubject
from twoclocks.runs import Experiment, RunSettings, load_settings, run
from twoclocks.store import verify_tree


def small(**change: dict[str, Any]) -> RunSettings:
    return load_settings("demo-gpt", merge({**TINY, "model": SMALL_MODEL}, change))


def test_a_run_with_an_omitted_content_counts_it_and_is_read_back_with_it(tmp_path: Path) -> None:
    settings = small(rule={"length": 12, "group": 4}, data={"n": 40, "omit": 1, "seed": 3})
    done = run(settings, tmp_path / "run")
    rule, omitted = settings.rule, settings.data.omitted(settings.rule)
    assert omitted is not None and len(omitted) == 1
    train = Experiment(settings).train_rows
    assert lacks(rule, train.numpy(), omitted).all()
    for again in (done.evaluator.train, RunSubject(done).train):
        assert torch.equal(again, train)
    assert not lacks(rule, rule.sample(200, 0).numpy(), omitted).all()

    row, column = done.rows()[-1], done.metric("group_omitted")
    decoded, _ = done.samples(int(row["step"]))
    groups, valid = rule.parts(decoded.symbols)["group"], rule.parts_valid(decoded.symbols)["group"]
    hits = int(((groups == omitted[0]).all(dim=2) & valid).sum())
    again = done.evaluator.row(decoded)
    assert (again["group_omitted_hits"], again["group_omitted_trials"]) == (hits, int(valid.sum()))
    assert 0 <= row["group_omitted_hits"] <= row["group_omitted_trials"] <= 3 * row["trials"]
    assert column.chance_rule == column.chance_cube == 1 / 8
    assert verify_tree(done.path)[0].intact


def test_what_a_perfect_model_and_one_that_recombines_score() -> None:
    settings = small(rule={"length": 12, "group": 4}, data={"n": 40, "omit": 1, "seed": 3})
    evaluator, rule = Experiment(settings).evaluator, settings.rule
    groups = evaluator.train.reshape(-1, 4)
    joined = groups[torch.randint(len(groups), (3000, 3), generator=torch.Generator().manual_seed(0))].flatten(1)
    nothing = torch.zeros(3000)
    assert evaluator(tc.data.Decoded(joined, nothing))["group_omitted"] == 0  # new samples of known groups
    assert evaluator(tc.data.Decoded(rule.sample(3000, 1), nothing))["group_omitted"] == pytest.approx(1 / 8, abs=0.015)
    invalid = torch.zeros(5, 12, dtype=torch.int64)
    invalid[:, ::4] = 1  # no valid group: nothing to count
    row = evaluator.row(tc.data.Decoded(invalid, nothing[:5]))
    assert (row["group_omitted_hits"], row["group_omitted_trials"]) == (0, 0)


def test_runs_without_omitted_contents_have_no_such_column(tiny_gpt: tc.Run) -> None:
    assert not any("omitted" in column for column in tiny_gpt.metrics())


def test_twins_and_resumed_runs_must_omit_the_same(tmp_path: Path) -> None:
    settings = small(rule={"length": 12, "group": 4}, data={"n": 40, "omit": 1}, training={"steps": 60})
    twin = replace(settings, data=replace(settings.data, part=1))
    check_twins(settings, twin)
    with pytest.raises(TwinsError, match=r"data\.omit is 1 in one and 0 in the other"):
        check_twins(settings, replace(twin, data=replace(twin.data, omit=0)))
    run(settings, tmp_path / "run")
    with pytest.raises(UserError, match=r"data\.omit is 1 there and 2 here"):
        run(replace(settings, data=replace(settings.data, omit=2)), tmp_path / "run")


def test_a_transposed_run_trains_on_the_transposed_squares(tmp_path: Path) -> None:
    shared = {"rule": {"name": "latin", "side": 4}, "data": {"n": 100}}
    plain, turned = small(**shared), small(**merge(shared, {"data": {"transposed": True}}))
    done = run(turned, tmp_path / "run")
    train = Experiment(plain).train_rows
    for again in (Experiment(turned).train_rows, done.evaluator.train, RunSubject(done).train):
        assert torch.equal(again, train.transpose(1, 2))
    assert done.evaluator.holdout is not None
    assert not is_member(tc.data.holdout_set(turned.rule, done.evaluator.train), done.evaluator.train, 4).any()
