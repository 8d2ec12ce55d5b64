"""The search for the largest stable rate, on real short trainings."""

from __future__ import annotations

import math

import pytest

from twoclocks.core.errors import SettingError, UserError
from twoclocks.papers.early_stopping.stable_rate import Trial, largest_stable_rate, try_rate
from twoclocks.runs import load_settings
from twoclocks.runs.settings import RunSettings

SMALL = {
    "rule": {"vocabulary": 8, "synonyms": 4, "depth": 2},
    "data.n": 32,
    "model.width": 24,
    "training": {"device": "cpu", "precision": "float32", "batch": 16},
    "evaluation": {"loss_rows": 64, "samples": 1024},
    "clocks.memory_threshold": 0.6,
}


def settings(optimizer: str, rate: float) -> RunSettings:
    training = {**SMALL["training"], "optimizer": optimizer, "learning_rate": rate}  # type: ignore[dict-item]
    return load_settings("p2-rhm-l3", {**SMALL, "training": training})


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_limit_is_bracketed_and_does_not_depend_on_where_the_search_begins(optimizer: str) -> None:
    limits = []
    for start in (0.02, 2.0):
        seen: list[Trial] = []
        found = largest_stable_rate(settings(optimizer, start), steps=160, seeds=1, factor=1.6, report=seen.append)
        assert 1 < found.refused / found.largest <= 1.6 and list(found.trials) == seen
        by_rate = {trial.rate: trial for trial in seen}
        assert by_rate[found.largest].converges and not by_rate[found.refused].converges
        assert try_rate(settings(optimizer, start), found.largest, 160, 1).converges
        limits.append(found.largest)
    assert max(limits) / min(limits) < 4, limits


@pytest.mark.parametrize("rate", [30.0, 1e4])
def test_a_network_in_pieces_has_not_converged_however_still_it_lies(rate: float) -> None:
    trial = try_rate(settings("adam", rate), rate, 160, 1)
    assert not trial.converges, trial


def test_a_rate_too_small_to_be_seen_is_stable() -> None:
    for optimizer in ("adam", "sgd"):
        assert try_rate(settings(optimizer, 1e-8), 1e-8, 80, 1).converges


def test_every_seed_must_converge_and_what_diverges_is_infinite() -> None:
    trial = try_rate(settings("sgd", 1e6), 1e6, 80, 2)
    assert not trial.converges and len(trial.losses) == 2 and all(math.isinf(loss) for loss in trial.losses)


def test_wrong_searches_are_refused() -> None:
    with pytest.raises(SettingError, match="factor"):
        largest_stable_rate(settings("adam", 0.1), factor=1.0)
    with pytest.raises(UserError, match="steps"):
        largest_stable_rate(settings("adam", 0.1), steps=3)
