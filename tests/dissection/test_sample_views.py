"""Raster, approach, groups and positions, on ideals and on histories whose truth is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from ideals import PARITY, diffusion, life, measure_view, readers

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks
from twoclocks.data.encodings import Decoded
from twoclocks.dissection import Models, dissect
from twoclocks.dissection.execution import choose_views
from twoclocks.dissection.views.groups import block_sizes
from twoclocks.dissection.views.raster import Raster, dwell_times, stay_interval, stays, transitions_in
from twoclocks.evaluation.states import STATES
from twoclocks.oracles import list_posterior, rule_posterior
from twoclocks.oracles.prefix import listed_token_loss, next_token_loss
from twoclocks.rules import RULES
from twoclocks.runs import load_settings

PHASES = ("cube", "rule", "memory")


@pytest.fixture(scope="module")
def ideals() -> Models:
    return life(diffusion(), PHASES)


def refusals(subject: Models) -> dict[str, str]:
    found = {name: view.refusal(subject.settings) for name, view in choose_views().items()}
    return {name: why for name, why in found.items() if why is not None}


class History(Models):
    """Samples as they are given, whatever the networks."""

    def __init__(self, samples: dict[int, torch.Tensor], distance: float = 0.0, **change: Any) -> None:
        super().__init__(diffusion({**PARITY, **change}), dict.fromkeys(samples, None))  # type: ignore[arg-type]
        self.given, self.far = samples, distance

    def samples(self, step: int) -> Decoded:
        rows = self.given[step]
        return Decoded(rows, torch.full((len(rows),), self.far))


def test_the_four_states_follow_the_ideals(ideals: Models) -> None:
    info = measure_view(ideals, "raster")
    cube, rule, memory = info.counts / 300
    chance = ideals.rule.chance()
    assert cube[STATES.index("broken")] == pytest.approx(1 - chance, abs=0.05)
    copies = ideals.rule.copy_chance(6)
    assert rule[STATES.index("valid-new")] == pytest.approx(1 - copies, abs=0.05)
    assert memory[STATES.index("memorized")] > 0.99
    assert info.transitions.sum(axis=(1, 2)).tolist() == [300, 300]
    assert (info.transitions[0].sum(axis=1) == info.counts[0]).all()  # rows are where noises come from
    assert (info.transitions[0].sum(axis=0) == info.counts[1]).all()  # columns where they go
    first = info.first_memorized
    assert (np.diff(first[info.order]) >= 0).all() and set(first) <= {10.0, 20.0, 30.0, math.inf}


def test_values_between_symbols_come_first() -> None:
    rows = diffusion().rule.sample(300, seed=1)
    info = measure_view(History({1: rows, 2: rows}, distance=0.6), "raster")
    assert (info.states == STATES.index("between")).all()


def chain(matrix: np.ndarray, steps: int, noises: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    states = np.zeros((steps, noises), dtype=np.uint8)
    states[0] = rng.integers(0, 4, noises)
    for step in range(1, steps):
        chances = matrix[states[step - 1]].cumsum(axis=1)
        states[step] = (rng.random((noises, 1)) > chances).sum(axis=1)
    return states


MATRIX = np.array([[0.1, 0.5, 0.4, 0.0], [0.0, 0.2, 0.7, 0.1], [0.0, 0.1, 0.8, 0.1], [0.0, 0.02, 0.08, 0.9]])


def test_transitions_of_a_known_chain_are_found_and_the_intervals_hold_them() -> None:
    held = np.zeros(4)
    for seed in range(100):
        states = chain(MATRIX, 12, 150, seed)
        phase = transitions_in("", np.arange(12), states)
        held += (phase.stay_low <= MATRIX.diagonal()) & (MATRIX.diagonal() <= phase.stay_high)
        if seed == 0:
            assert np.allclose(phase.markov[1:], MATRIX[1:], atol=0.08)
            assert np.allclose(phase.markov.sum(axis=1), 1) and phase.counts.sum() == 11 * 150
            assert (phase.stay_high - phase.stay_low)[1:].max() < 0.2
    assert (held >= 90).all()  # of 100, at 95%


def test_intervals_hold_where_few_noises_differ_from_each_other() -> None:
    """Half of the noises never leave, half leave often: moves of one noise are no independent trials."""
    held, truth = 0, 0.5 * (1.0 + 0.7)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        leaves = rng.random(40) < 0.5
        each = np.zeros((40, 4, 4), dtype=np.int64)
        moves = rng.binomial(10, np.where(leaves, 0.3, 0.0))
        each[:, 3, 2], each[:, 3, 3] = moves, 10 - moves
        low, high = stay_interval(each, stays(each.sum(axis=0)))
        held += bool(low[3] <= truth <= high[3])
    assert held >= 184
    still = np.zeros((20, 4, 4), dtype=np.int64)
    still[:, 3, 3] = 5
    low, high = stay_interval(still, stays(still.sum(axis=0)))
    assert high[3] == 1 and low[3] == pytest.approx(0.025 ** (1 / 20)) and math.isnan(low[0])


def test_dwell_times_count_visits_that_are_cut_off_as_such() -> None:
    states = np.array([[3, 1], [3, 1], [2, 1], [2, 3]], dtype=np.uint8)
    dwell = dwell_times(states)
    assert dwell[3] == 2 and math.isinf(dwell[2]) and dwell[1] == 3 and math.isnan(dwell[0])
    assert dwell_times(chain(MATRIX, 2000, 20, seed=1))[3] == pytest.approx(1 / 0.1, rel=0.1)


def test_windows_are_the_clocks_or_those_that_are_asked_for() -> None:
    steps = np.arange(0, 100, 10)
    clocks = Clocks(Onset(10, 20, "observed"), Onset(50, 60, "observed"))
    assert Raster().named_windows(clocks, steps) == {
        "before the rule": (0, 20),
        "between the clocks": (20, 60),
        "once copying has begun": (60, math.inf),
    }
    never = Onset(90, math.inf, "right-censored")
    assert list(Raster().named_windows(Clocks(never, never), steps)) == ["over the whole run"]
    assert list(Raster(windows=(30, 300)).named_windows(clocks, steps).values()) == [(30, 300)]


def test_windows_without_evaluations_are_named_not_counted(ideals: Models) -> None:
    info = measure_view(ideals, "raster", windows=[1000, 2000])
    assert not info.windows and "No window holds" in info.sentences()[-1]


def test_ideals_are_as_far_from_the_training_set_as_chance_predicts(ideals: Models) -> None:
    info = measure_view(ideals, "approach")
    assert info.mean[1, 2] == pytest.approx(info.chance, abs=4 * info.error[1, 2])
    assert info.mean[2, 0] < 0.05 and info.number[2, 2] < 5
    assert info.mean[1, 1] < info.mean[1, 2]  # copies count among the valid ones


def test_an_approach_begins_where_it_begins() -> None:
    """Rows of the rule, then rows of which a growing part lies two bits beside a training row."""
    rule, train = diffusion().rule, diffusion_train()
    near = train.repeat(200, 1)
    near[:, :2] = 1 - near[:, :2]  # two bits of a group: valid again
    known = {tuple(row) for row in train.tolist()}
    near = near[[tuple(row) not in known for row in near.tolist()]]
    history = {}
    for k, part in enumerate([0.0, 0.0, 0.0, 0.6, 0.8, 0.9]):
        rows = rule.sample(1000, seed=k)
        rows = rows[[tuple(row) not in known for row in rows.tolist()]][:800]
        count = int(part * len(rows))
        history[10 * (k + 1)] = torch.cat([near[:count], rows[count:]])
    info = measure_view(History(history), "approach", departure=0.1)
    assert (info.onset.lower, info.onset.upper) == (30, 40)
    assert info.mean[5, 2] == pytest.approx(2 * 0.9 + info.chance * 0.1, abs=0.2)


def diffusion_train() -> torch.Tensor:
    from twoclocks.data.sets import training_set

    return training_set(diffusion().rule, 6, 0)


def test_groups_of_ideals_are_at_chance_and_memory_covers_what_it_holds(ideals: Models) -> None:
    info = measure_view(ideals, "groups")
    assert info.kinds == ("group",) and info.blocks == (1, 2, 4)
    cube, rule, memory = range(3)
    assert info.seen[rule, 0] == pytest.approx(info.chance_seen[0, 0], abs=0.03)
    assert info.seen[cube, 0] == pytest.approx(info.chance_seen[1, 0], abs=0.05)
    assert np.allclose(info.block_seen[rule], info.chance_block[0], atol=0.05)
    assert np.allclose(info.block_seen[memory], 1, atol=0.01) and info.coverage[memory, 0] == 1
    assert info.block_seen[cube, 2] < 0.02
    assert set(info.copied_blocks()) == {1, 2, 4}  # the last is memory
    alone = measure_view(Models(ideals.settings, {10: ideals.networks[20]}), "groups")
    assert not alone.copied_blocks() and "At no size" in alone.sentences()[-1]


def test_few_copies_among_many_samples_are_no_chance() -> None:
    rule, train = diffusion().rule, diffusion_train()
    rows = rule.sample(2000, seed=3)
    copies = torch.cat([train.repeat(20, 1), rows])[:2000]
    info = measure_view(History({1: copies}), "groups")
    rate, least, chance = info.copied_blocks()[4]
    assert rate == pytest.approx(0.06 + 0.94 * chance, abs=0.01) and chance < least < rate


def test_recombination_is_known_in_its_parts_and_new_as_a_whole() -> None:
    train = diffusion_train()
    mixed = torch.cat([train[:3, :6], train[3:, 6:]], dim=1)
    info = measure_view(History({1: mixed, 2: train}), "groups")
    assert info.seen[0, 0] == 1 and info.block_seen[0].tolist() == [1, 1, 0]
    assert info.trials.tolist() == [3, 0] and info.samples.tolist() == [3, 6]
    assert math.isnan(info.seen[1, 0]) and info.block_seen[1].tolist() == [1, 1, 1]
    groups = {tuple(group.tolist()) for row in train for group in row.reshape(4, 3)}
    there = {tuple(group.tolist()) for row in mixed for group in row.reshape(4, 3)}
    assert info.coverage[0, 0] == pytest.approx(len(there) / len(groups))
    assert block_sizes(12) == (1, 2, 4, 8, 12) and block_sizes(1) == (1,)


TEXT = {**PARITY, "rule": {"length": 12, "group": 3}, "objective": {}, "data": {"n": 6}}


@pytest.fixture(scope="module")
def text() -> Models:
    settings = load_settings("demo-gpt", {key: value for key, value in TEXT.items() if key != "objective"})
    ideal = readers(settings)
    names = ["cube"] * 2 + ["rule"] * 2 + ["memory"] * 2
    return Models(settings, {10 * (k + 1): ideal[name] for k, name in enumerate(names)})


def test_positions_that_the_rule_gives_away_fall_and_memory_splits_the_rest(text: Models) -> None:
    info = measure_view(text, "positions", rows=24)
    ends = [2, 5, 8, 11]
    assert info.determined.tolist() == ends
    log2 = math.log(2)
    assert np.allclose(info.rule_floor, [0 if k in ends else log2 for k in range(12)], atol=1e-9)
    for split in ("train", "held_out"):
        assert np.allclose(info.of(split)[2], info.rule_floor, atol=1e-6)
    assert np.allclose(info.loss[0], log2, atol=1e-6)
    assert info.of("cube")[2, 2] > 3  # certain and wrong half of the time
    assert np.allclose(info.of("train")[4], info.memory_floor, atol=1e-6)
    for k, onset in enumerate(info.rule_onsets):
        assert (onset is not None) == (k in ends)
        if onset is not None:
            assert (onset.lower, onset.upper) == (20, 30)
    late = [k for k, onset in enumerate(info.memory_onsets) if onset.seen]
    assert late and all((info.memory_onsets[k].lower, info.memory_onsets[k].upper) == (40, 50) for k in late)
    assert info.gap[4, late].min() > 0 and np.abs(info.gap[:4]).max() < 0.2


def test_next_token_losses_are_those_of_counting() -> None:
    rule = RULES.create("exact_k", length=6, k=2)
    rows = rule.enumerate()
    for posterior in (rule_posterior(rule), list_posterior(rows, 2)):
        loss = next_token_loss(posterior, rows, 2)
        assert torch.allclose(loss, listed_token_loss(rows, rows, 2))
        assert torch.allclose(loss.sum(dim=1), torch.full((15,), math.log(15), dtype=torch.float64))
        for row in range(15):
            for place in range(6):
                same = (rows[:, :place] == rows[row, :place]).all(dim=1)
                share = (rows[same, place] == rows[row, place]).double().mean()
                assert float(loss[row, place]) == pytest.approx(-math.log(float(share)), abs=1e-9)


def test_views_that_make_no_sense_say_why(ideals: Models, text: Models) -> None:
    refused = dissect(text, choose_views(["basin", "field", "spectrum", "trajectories"])).refused
    assert set(refused) == {"basin", "field", "spectrum", "trajectories"}
    assert not {"approach", "groups", "positions", "raster"} & set(refusals(text))
    assert all("autoregressive has no noise levels" in why for why in refused.values())
    refused = dissect(ideals, choose_views(["positions", "raster"])).refused
    assert list(refused) == ["positions"] and "edm has no order of positions" in refused["positions"]
    whole = load_settings("demo", {**PARITY, "rule": {"name": "exact_k", "length": 12, "k": 6}, "data": {"n": 6}})
    assert "no pieces" in dissect(Models(whole, ideals.networks), choose_views(["groups"])).refused["groups"]
    single = Models(ideals.settings, {5: ideals.networks[10]})
    assert "at least 2 evaluations" in dissect(single, choose_views(["raster"])).refused["raster"]
