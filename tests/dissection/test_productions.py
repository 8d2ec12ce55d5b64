"""Productions of true, biased and correlated generators, and of a run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from small_runs import SMALL_MODEL
from torch import Tensor

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks
from twoclocks.data.encodings import Decoded
from twoclocks.data.sets import training_set
from twoclocks.dissection import Models, dissect
from twoclocks.dissection.execution import choose_views
from twoclocks.dissection.truth import Truth, covariance_of, truth_of, without
from twoclocks.dissection.views.productions import LEVEL, Productions, ProductionsInfo, early_stop, fit_of
from twoclocks.report.drawings.productions import ProductionsDrawing
from twoclocks.rules import RandomHierarchy
from twoclocks.rules.usage import nodes_used, usage_counts, usage_moments
from twoclocks.runs import load_settings, run
from twoclocks.testing import check_view

RULE = {"name": "rhm", "depth": 2, "branching": 2, "vocabulary": 4, "synonyms": 2, "rule_seed": 3}
GRAMMAR = RandomHierarchy(**{key: value for key, value in RULE.items() if key != "name"})
SAMPLES = 600


class Given(Models):
    """Strings as they are given."""

    def __init__(self, samples: dict[int, Tensor], clocks: Clocks | None = None, **change: Any) -> None:
        evaluation = {"samples": SAMPLES, "evaluations": 20}
        clocks_read = {"memory_threshold": 0.3, "above_chance": True}
        base = {"rule": RULE, "data": {"n": 4}, "evaluation": evaluation, "clocks": clocks_read}
        settings = load_settings("demo-gpt", {**base, **change})
        super().__init__(settings, dict.fromkeys(samples, None))  # type: ignore[arg-type]
        self.given, self.clocks = samples, clocks

    def samples(self, step: int) -> Decoded:
        return Decoded(self.given[step], torch.zeros(len(self.given[step])))


def measure(subject: Models, **settings: Any) -> ProductionsInfo:
    found = dissect(subject, choose_views(["productions"], {"productions": settings}))
    assert not found.refused, found.refused
    info = found.infos["productions"]
    assert isinstance(info, ProductionsInfo)
    json.dumps(info.numbers(), allow_nan=False)
    assert info.sentences() and not any("nan" in sentence for sentence in info.sentences())
    return info


def generate(n: int, seed: int, bias: float = 0.5, together: bool = False) -> Tensor:
    """Strings of the grammar by hand; ``bias``: chance of the first synonym of symbol 0's pair at the leaves.

    ``together``: both children of the root use the same synonym, each as often as the other.
    """
    rng = np.random.default_rng(seed)
    low, high = (table.numpy() for table in GRAMMAR.productions)
    children = high[rng.integers(0, 4, n), rng.integers(0, 2, n)]  # (n, 2)
    chosen = rng.integers(0, 2, (n, 2))
    if together:
        chosen[:, 1] = chosen[:, 0]
    chosen = np.where(children == 0, rng.random((n, 2)) > bias, chosen)
    return torch.from_numpy(low[children, chosen].reshape(n, 4))


def counts_of(x: Tensor) -> Tensor:
    return usage_counts(GRAMMAR, nodes_used(GRAMMAR, x))


@pytest.fixture(scope="module")
def truth() -> Truth:
    return truth_of(
        usage_moments(GRAMMAR), lambda n, number: counts_of(GRAMMAR.sample(n, seed=10_000 + number)), SAMPLES, 400
    )


@pytest.mark.parametrize("number", [40, 100, 430, SAMPLES])
def test_true_samples_are_said_to_deviate_as_often_as_is_allowed(truth: Truth, number: int) -> None:
    repeats = 500
    fits = [fit_of(truth, counts_of(GRAMMAR.sample(number, seed=seed)), 2) for seed in range(repeats)]
    layers = np.array([fit.layer_chances for fit in fits])
    pairs = np.array([fit.pair_chances for fit in fits])
    ratios = np.array([fit.ratios for fit in fits])
    errors = ratios.std(axis=0) / math.sqrt(repeats)
    assert np.all(np.abs(ratios.mean(axis=0) - 1) < 4 * errors)
    for chances in (layers, pairs):
        for level in (0.05, 0.2, 0.5):
            part = (chances <= level).mean(axis=0)
            # Beside the luck of these repeats that of the sets themselves, and of sizes between theirs.
            assert np.all(np.abs(part - level) < 4 * math.sqrt(level * (1 - level) * (1 / repeats + 1 / 400)) + 0.02)
    assert np.mean([fit.usage_deviates for fit in fits]) <= 3 * LEVEL
    assert np.mean([fit.pairs_deviate for fit in fits]) <= 4 * LEVEL


def test_noise_is_the_scatter_of_covariances(truth: Truth) -> None:
    found = np.stack([covariance_of(counts_of(GRAMMAR.sample(200, seed=k))).numpy() for k in range(800)])
    seen = np.isfinite(truth.noise)
    scatter = found.std(axis=0) * math.sqrt(200)
    assert np.allclose(found.mean(axis=0), truth.covariance, atol=0.01)
    assert np.median(np.abs(scatter / truth.noise - 1)[seen]) < 0.05 and (scatter[~seen] < 1e-6).all()
    assert truth.reference[-1, 0].mean() == pytest.approx(1, abs=0.05)


def test_a_preferred_synonym_is_found_in_its_layer_and_named() -> None:
    info = measure(Given({1: generate(SAMPLES, 0), 2: generate(SAMPLES, 1, bias=0.8)}))
    fair, biased = info.fits
    assert not fair.usage_deviates and not fair.pairs_deviate
    assert biased.usage_deviates and biased.layer_chances[0] < 1e-6 and biased.layer_chances[1] > LEVEL
    name, times = info.largest_deviation(1, 1)
    first, second = (f"0 → {' '.join(map(str, string))}" for string in GRAMMAR.productions[0][0].tolist())
    assert (name == first and times == pytest.approx(1.6, abs=0.2)) or (
        name == second and times == pytest.approx(0.4, abs=0.2)
    )
    words = info.sentences()
    assert f"the largest deviation is {name}" in words[1] and "layer 2 are used as often" in words[2]


def test_choices_that_depend_on_each_other_are_found_by_covariance_alone() -> None:
    info = measure(Given({1: generate(SAMPLES, 2, together=True)}))
    (fit,) = info.fits
    assert not fit.usage_deviates and fit.pairs_deviate
    assert "not those of true samples" in info.sentences()[-1]


def test_only_whole_strings_count_and_few_are_not_judged() -> None:
    x = generate(SAMPLES, 3)
    broken = x.clone()
    known = {tuple(string) for string in GRAMMAR.productions[0].flatten(0, 1).tolist()}
    pair = next((a, b) for a in range(4) for b in range(4) if (a, b) not in known)
    broken[20:, :2] = torch.tensor(pair)
    none = broken.clone()
    none[:, :2] = torch.tensor(pair)
    info = measure(Given({1: x, 2: broken, 3: none}))
    assert [fit.number for fit in info.fits] == [SAMPLES, 20, 0]
    assert np.array_equal(info.usage[1], counts_of(x[:20]).double().mean(dim=0).numpy())
    assert "0 of 600 samples are valid strings: too few" in info.sentences()[0]
    assert info.numbers()["usage"][2][0] is None and info.numbers()["fits"][1] == {"strings": 20}
    FigureCanvasAgg(ProductionsDrawing().draw(info)).draw()


def test_new_strings_are_held_against_new_true_strings() -> None:
    """With half of all strings trained on, what is left is not like the whole."""
    half = {"data": {"n": GRAMMAR.count() // 2}}
    every = GRAMMAR.enumerate()
    train = training_set(GRAMMAR, half["data"]["n"], seed=0)
    known = {tuple(row) for row in train.tolist()}
    left = every[[tuple(row) not in known for row in every.tolist()]]
    counts = counts_of(left).double().numpy()
    drawn = left[torch.from_numpy(np.random.default_rng(0).integers(0, len(left), SAMPLES))]
    subject = Given({1: drawn}, **half)
    info = measure(subject, only_new=True)
    assert np.allclose(info.truth.mean, counts.mean(axis=0))
    assert np.allclose(info.truth.covariance, np.cov(counts.T, bias=True), atol=1e-9)
    (fit,) = info.fits
    assert fit.number == SAMPLES and not fit.usage_deviates and not fit.pairs_deviate
    assert "valid and new strings" in info.sentences()[0]
    assert measure(subject).fits[0].usage_deviates  # as samples of the whole rule they are not
    copies = Given({1: train[torch.arange(SAMPLES) % len(train)]}, **half)
    assert measure(copies, only_new=True).fits[0].number == 0


def test_moments_without_some_strings() -> None:
    rng = np.random.default_rng(0)
    rows = rng.poisson(1.0, (50, 6)).astype(float)
    mean, covariance = without((rows.mean(axis=0), np.cov(rows.T, bias=True)), 50, rows[:20])
    assert np.allclose(mean, rows[20:].mean(axis=0)) and np.allclose(covariance, np.cov(rows[20:].T, bias=True))


def test_the_early_stop_is_the_last_evaluation_before_memory() -> None:
    never = Onset(40, math.inf, "right-censored")
    steps = np.array([10, 20, 30, 40])
    assert early_stop(steps, None) == 3 and early_stop(steps, Clocks(never, never)) == 3
    assert early_stop(steps, Clocks(never, Onset(20, 30, "observed"))) == 1
    assert early_stop(steps, Clocks(never, Onset(0, 10, "left-censored"))) == 3
    clocks = Clocks(Onset(5, 10, "observed"), Onset(10, 20, "observed"))
    info = measure(Given({10: generate(SAMPLES, 4), 20: generate(SAMPLES, 5, bias=0.9)}, clocks))
    words = info.sentences()
    assert words[0].startswith("At step 10, the last evaluation before τ_mem, 600 of 600 samples are valid strings")
    assert any(sentence.startswith("At step 20, the last evaluation, 600") for sentence in words)
    assert np.array_equal(info.deviations, info.truth.deviations(counts_of(generate(SAMPLES, 4))))
    assert "step 10" in ProductionsDrawing().draw(info).subfigs[1].axes[0].get_title()


def test_contract_on_a_run_and_refusals(tmp_path: Path) -> None:
    change = {
        "rule": {**RULE, "vocabulary": 3},
        "data": {"n": 4},
        "training": {"steps": 20, "batch": 8},
        "evaluation": {"samples": 200, "steps": [5, 10, 20], "loss_rows": 8, "keep_samples": 150},
        "clocks": {"memory_threshold": 0.4, "sustain": 1},
        "model": SMALL_MODEL,
    }
    done = run(load_settings("demo-gpt", change), tmp_path / "run")
    for only_new in (False, True):
        check_view(Productions(only_new=only_new), done)
    parity = load_settings("demo-gpt")
    assert "parity has no productions" in str(Productions().refusal(parity))
    wide = {**RULE, "vocabulary": 40, "synonyms": 30}
    large = load_settings("demo-gpt", {"rule": wide})
    assert "2,400 productions" in str(Productions().refusal(large))
