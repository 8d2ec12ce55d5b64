"""What a sampler costs alone: fewer levels, more invalid strings; and presets that say so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from twoclocks import objectives
from twoclocks.core.errors import UserError
from twoclocks.objectives.d3pm import D3PM
from twoclocks.papers.exact_sampler import exact_network, invalid_by_sampler
from twoclocks.rules import Parity, RandomHierarchy
from twoclocks.runs import load_settings
from twoclocks.runs.presets import preset_names, read_preset

STORED = json.loads((Path(__file__).parents[2] / "results" / "sampler.json").read_text())


def test_fewer_levels_make_more_invalid_strings() -> None:
    rule = RandomHierarchy(depth=3, branching=2, vocabulary=8, synonyms=2)
    few, many = (invalid_by_sampler(replace(D3PM(), sampler_levels=levels), rule, 500) for levels in (5, 100))
    assert few[1] > many[2] and many[0] < 0.05
    assert few[1] <= few[0] <= few[2]


def test_one_free_token_at_a_time_costs_nothing() -> None:
    """Strings of one token have nothing to contradict."""
    one = Parity(length=2, group=2)
    found, *_ = invalid_by_sampler(objectives.create("masked", sampler_levels=400), one, 400)
    assert found < 0.02  # both tokens in the same of 400 steps: once in 400 samples


def test_images_have_no_exact_tokens() -> None:
    with pytest.raises(UserError, match="d3pm or masked"):
        exact_network(objectives.EDM(), Parity(length=2, group=2))


def test_presets_say_what_their_sampler_costs() -> None:
    rules = {name: read_preset(name)["rule"]["name"] for name in preset_names()}
    grammars = [name for name, rule in rules.items() if rule == "rhm"]
    assert set(STORED["presets"]) == set(grammars)
    for name, found in STORED["presets"].items():
        says = "sampler" in load_settings(name).description
        assert says == (found["invalid"] > 0.01), name
        if says:
            assert f"makes {found['invalid']:.0%} of the samples invalid" in load_settings(name).description


def test_the_stored_cost_is_measured_again() -> None:
    settings = load_settings("p2-rhm-small")
    found, low, high = invalid_by_sampler(settings.objective, settings.rule, 400, seed=1)
    stored = STORED["presets"]["p2-rhm-small"]["interval"]
    assert low <= stored[1] and stored[0] <= high, (found, stored)
