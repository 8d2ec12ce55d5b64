"""Discrete diffusion against matrices, enumeration and exact posteriors."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from twoclocks import models, objectives, oracles
from twoclocks.core.errors import SettingError
from twoclocks.core.rows import row_keys
from twoclocks.objectives.base import sample
from twoclocks.objectives.d3pm import D3PM, TRANSITIONS
from twoclocks.objectives.masked import Masked
from twoclocks.objectives.randomness import draw_seeds, sample_categorical, uniforms
from twoclocks.objectives.schedules import SCHEDULES
from twoclocks.objectives.transitions import MASK
from twoclocks.oracles.discrete import Corruption
from twoclocks.rules import Parity, RandomHierarchy
from twoclocks.rules.base import Rule
from twoclocks.testing.contracts import check_model, check_objective

GRAMMAR = RandomHierarchy(depth=2, branching=2, vocabulary=3, synonyms=2, rule_seed=3)  # 24 strings of 4 symbols
CORRUPTIONS: dict[str, type[Corruption]] = {"uniform": oracles.UniformNoise, "absorbing": oracles.Masking}


def matrix(kind: str, alpha: float, symbols: int) -> Tensor:
    """Transition matrix q(to | from) over the symbols and, after them, the mask: (from, to)."""
    states = symbols + (kind == "absorbing")
    away = torch.zeros(states, states, dtype=torch.float64)
    if kind == "uniform":
        away[:, :] = 1 / symbols
    else:
        away[:, -1] = 1.0
    return alpha * torch.eye(states, dtype=torch.float64) + (1 - alpha) * away


@pytest.mark.parametrize("kind", ["uniform", "absorbing"])
@pytest.mark.parametrize(("before", "now"), [(1.0, 0.97), (0.6, 0.55), (0.8, 0.1), (0.3, 0.0)])
def test_steps_back_are_bayes_rule_on_transition_matrices(kind: str, before: float, now: float) -> None:
    symbols, transitions = 4, TRANSITIONS[kind]
    first, step, whole = (matrix(kind, value, symbols) for value in (before, now / before, now))
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(1, 1, symbols, generator=generator, dtype=torch.float64)
    s, t = (torch.full((1,), value, dtype=torch.float64) for value in (before, now))
    for clean, token in itertools.product(range(symbols), range(len(whole))):
        if whole[clean, token] == 0:
            continue
        posterior = first[clean] * step[:, token] / whole[clean, token]  # q(x_s | x_t, x_0), over states
        predicted = torch.zeros_like(posterior)
        for other, share in enumerate(logits.softmax(dim=-1).flatten()):
            if whole[other, token] > 0:
                predicted += share * first[other] * step[:, token] / whole[other, token]
            else:  # the network believes the impossible: then an unmasked token is what it is
                predicted += share * torch.eye(len(whole), dtype=torch.float64)[token]
        tokens = torch.tensor([[MASK if token == symbols else token]])
        message = logits - transitions.likelihood(tokens, t[:, None], symbols)
        pair = transitions.pair(s, t, symbols)
        found = transitions.reverse_posterior(tokens, message, pair).flatten()
        if kind == "absorbing":  # the mask comes first
            found = found.roll(-1)
        assert torch.allclose(found, predicted[: len(found)], atol=1e-6)
        slow = sum(float(q * (q / p).log()) for q, p in zip(posterior, predicted, strict=True) if q > 0)
        divergence = transitions.divergence(torch.tensor([[clean]]), tokens, message, pair)
        assert float(divergence) == pytest.approx(slow, abs=1e-5)


@pytest.mark.parametrize("kind", ["uniform", "absorbing"])
def test_corruption_has_the_frequencies_of_its_matrix(kind: str) -> None:
    symbols, now = 3, 0.3
    generator = torch.Generator().manual_seed(1)
    clean = torch.full((1, 200_000), 1)
    chosen, other = (torch.rand(clean.shape, generator=generator) for _ in range(2))
    tokens = TRANSITIONS[kind].corrupt(clean, torch.tensor([[now]]), chosen, other, symbols)
    found = torch.bincount(tokens.flatten() % (symbols + 1), minlength=symbols + 1).double() / clean.numel()
    truth = matrix(kind, now, symbols)[1]
    assert torch.allclose(found[: len(truth)], truth, atol=0.005)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_forget_everything_at_the_rate_they_say(name: str) -> None:
    schedule = SCHEDULES[name]
    levels = schedule.levels(1000)
    assert float(levels[0]) == 1.0 and float(levels[-1]) == 0.0 and bool((levels.diff() < 0).all())
    u = torch.linspace(0.001, 0.999, 400, dtype=torch.float64)
    slope = (schedule.alpha(u + 1e-6) - schedule.alpha(u - 1e-6)) / 2e-6
    assert torch.allclose(schedule.rate(u), -slope, rtol=1e-4, atol=1e-6)


def every_mask(rule: Rule) -> tuple[Tensor, Tensor]:
    """All strings with all sets of masks: tokens and clean ones (strings·2^length, length)."""
    strings = rule.enumerate().flatten(1)
    hidden = torch.tensor(list(itertools.product([False, True], repeat=strings.shape[1])))
    clean = strings.repeat_interleave(len(hidden), dim=0)
    return torch.where(hidden.repeat(len(strings), 1), MASK, clean), clean


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rule", [GRAMMAR, Parity(length=4, group=2)], ids=["grammar", "parity"])
def test_with_the_exact_posterior_the_masked_bound_is_the_entropy(rule: Rule, schedule: str) -> None:
    """Order by order, masked tokens are a chain rule: the integral over times is log count, whatever the schedule."""
    network = oracles.restoring_network(oracles.rule_posterior(rule), oracles.Masking, rule.symbols)
    tokens, clean = every_mask(rule)
    nll = -network(tokens, torch.ones(1)).gather(2, clean[..., None]).squeeze(2)
    nll = (nll * (tokens == MASK)).sum(dim=1)  # nats per string
    masked = (tokens == MASK).sum(dim=1).double()
    chosen = SCHEDULES[schedule]
    points, weights = (torch.from_numpy(part) for part in __import__("numpy").polynomial.legendre.leggauss(200))
    total = 0.0
    for u, weight in zip((points + 1) / 2, weights / 2, strict=True):
        alpha = chosen.alpha(u)
        probability = alpha ** (tokens.shape[1] - masked) * (1 - alpha) ** masked / len(rule.enumerate())
        total += float(weight * chosen.rate(u) / (1 - alpha) * (probability * nll).sum())
    assert total == pytest.approx(math.log(rule.count()), rel=1e-3)


def exact_bound(objective: D3PM, rule: Rule, repeats: int) -> tuple[float, float]:
    """The mean loss with the rule's exact posterior as the network, and its standard error."""
    network = oracles.restoring_network(oracles.rule_posterior(rule), CORRUPTIONS[objective.corruption], rule.symbols)
    clean = rule.enumerate().flatten(1).repeat(repeats, 1)
    losses = objective.loss(objective.network_of(network), clean, torch.Generator().manual_seed(0)).double()
    return float(losses.mean()), float(losses.std()) / math.sqrt(len(losses))


@pytest.mark.parametrize("corruption", ["uniform", "absorbing"])
def test_the_bound_of_the_exact_posterior_falls_to_the_entropy_with_the_levels(corruption: str) -> None:
    entropy = math.log(GRAMMAR.count()) / 4  # nats per token
    bounds = []
    for levels in (2, 8, 500):
        objective = objectives.create("d3pm", corruption=corruption, noise_levels=levels, symbols=3)
        assert isinstance(objective, D3PM)
        bounds.append(exact_bound(objective, GRAMMAR, repeats=1500))
    (few, _), (more, _), (many, error) = bounds
    assert few > more > many > entropy - 4 * error
    assert many < entropy + 0.02 + 4 * error


@pytest.mark.parametrize("corruption", ["uniform", "absorbing"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_bound_is_the_sum_of_its_terms_over_matrices(corruption: str, schedule: str) -> None:
    """One token, three levels, a network with a constant output: every term computed by hand, on every schedule."""
    symbols, levels = 3, 3
    alpha = SCHEDULES[schedule].levels(levels).tolist()
    belief = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    exact = torch.zeros(symbols)
    for clean in range(symbols):
        total = 0.0
        for t in range(1, levels + 1):
            first, step, whole = (
                matrix(corruption, a, symbols) for a in (alpha[t - 1], alpha[t] / alpha[t - 1], alpha[t])
            )
            for token in range(len(whole)):
                if whole[clean, token] == 0 or (corruption == "absorbing" and token < symbols):
                    continue  # a visible token under absorption is certain: no term
                true = first[clean] * step[:, token] / whole[clean, token]
                predicted = sum(p * first[a] * step[:, token] / whole[a, token] for a, p in enumerate(belief))
                kl = sum(float(q * (q / p).log()) for q, p in zip(true, predicted, strict=True) if q > 0)  # type: ignore[arg-type]
                total += float(whole[clean, token]) * kl
        exact[clean] = total
    objective = D3PM(corruption=corruption, schedule=schedule, noise_levels=levels, symbols=symbols)  # type: ignore[arg-type]
    network = objective.network_of(lambda tokens, noise: belief.log().expand(*tokens.shape, symbols))
    clean_rows = torch.arange(symbols).repeat_interleave(30_000)[:, None]
    losses = torch.stack(
        [objective.loss(network, rows, torch.Generator().manual_seed(7)) for rows in clean_rows.split(30_000)]
    ).double()
    error = losses.std(dim=1) / math.sqrt(30_000)
    assert bool(((losses.mean(dim=1) - exact).abs() < 4.5 * error + 1e-4).all()), (losses.mean(dim=1), exact)


def test_the_auxiliary_loss_is_the_cross_entropy_of_clean_tokens() -> None:
    clean = GRAMMAR.enumerate()
    oracle = oracles.restoring_network(oracles.rule_posterior(GRAMMAR), oracles.UniformNoise, 3)
    bound, both = (D3PM(noise_levels=20, auxiliary=weight, symbols=3) for weight in (0.0, 0.5))
    drawn = bound.draw(clean, torch.Generator().manual_seed(0))
    more = both.loss_given(both.network_of(oracle), clean, *drawn) - bound.loss_given(
        bound.network_of(oracle), clean, *drawn
    )
    tokens, alpha = bound.corrupt(clean, *drawn)
    nll = -oracle(tokens, 1 - alpha[:, 0]).gather(2, clean[..., None]).squeeze(2).mean(dim=1)
    assert torch.allclose(more.double(), 0.5 * nll, atol=1e-4)


PREDICTING = [
    ("uniform", D3PM(noise_levels=50, symbols=3)),
    ("uniform", D3PM(noise_levels=50, evidence=False, symbols=3)),
    ("absorbing", D3PM(noise_levels=50, corruption="absorbing", symbols=3)),
    ("absorbing", Masked()),
]


@pytest.mark.parametrize(("corruption", "objective"), PREDICTING, ids=str)
def test_predictions_are_the_posterior_and_what_is_seen_is_certain(
    corruption: str, objective: objectives.Objective
) -> None:
    clean = GRAMMAR.enumerate()
    oracle = oracles.restoring_network(oracles.rule_posterior(GRAMMAR), CORRUPTIONS[corruption], 3)
    drawn = objective.draw(clean, torch.Generator().manual_seed(3))
    network = objective.network_of(oracle) if isinstance(objective, D3PM) else oracle
    predicted = objective.predictions(network, clean, *drawn)
    tokens, alpha = objective.corrupt(clean, *drawn)  # type: ignore[attr-defined]
    exact = oracle(tokens, 1 - alpha.reshape(len(clean))).exp()
    assert predicted is not None and torch.allclose(predicted.double(), exact, atol=1e-4)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_masked_diffusion_keeps_its_schedule_and_passes_the_noise_to_the_network(schedule: str) -> None:
    objective = Masked(schedule=schedule, sampler_levels=10)  # type: ignore[arg-type]
    calls: list[tuple[float, float]] = []

    def listen(tokens: Tensor, noise: Tensor) -> Tensor:
        calls.append((float(noise.mean()), float((tokens == MASK).double().mean())))
        return torch.zeros(*tokens.shape, 3)

    sample(objective, listen, objective.draw_noise(4000, (4,), torch.Generator().manual_seed(0)), chunk=4000)
    expected = [1 - float(a) for a in SCHEDULES[schedule].levels(10).flip(0)[:-1]]
    assert [noise for noise, _ in calls] == pytest.approx(expected, abs=1e-5)
    assert [masked for _, masked in calls] == pytest.approx(expected, abs=0.02)
    calls.clear()
    objective.loss(listen, torch.zeros(4000, 4, dtype=torch.int64), torch.Generator().manual_seed(1))
    assert calls[0][0] == pytest.approx(calls[0][1], abs=0.02)


def test_times_of_masked_diffusion_begin_at_nothing() -> None:
    times = Masked().draw(torch.zeros(5000, 1, dtype=torch.int64), torch.Generator().manual_seed(0))[0]
    assert float(times.min()) < 2.5 / 5000 and float(times.max()) > 1 - 2.5 / 5000


def test_the_first_step_back_is_independent_of_where_it_began() -> None:
    objective = D3PM(noise_levels=1, symbols=4)
    noise = objective.draw_noise(40_000, (1,), torch.Generator().manual_seed(0))
    silent = lambda tokens, noise: torch.zeros(*tokens.shape, 4)  # noqa: E731
    before = objective.begin(silent, noise)
    after = objective.reverse_step(silent, before, 0)
    together = torch.bincount((4 * before.tokens + after.tokens).flatten(), minlength=16).double()
    assert float(((together - 2500) ** 2 / 2500).sum()) < 15 + 4.5 * math.sqrt(30)


def test_masked_diffusion_is_the_limit_of_absorbing_levels() -> None:
    network = oracles.restoring_network(oracles.rule_posterior(GRAMMAR), oracles.Masking, 3)
    clean = GRAMMAR.enumerate().repeat(2000, 1)
    for schedule in SCHEDULES:
        masked = Masked(schedule=schedule)  # type: ignore[arg-type]
        found = masked.loss(network, clean, torch.Generator().manual_seed(0)).double()
        error = float(found.std()) / math.sqrt(len(found))
        assert float(found.mean()) == pytest.approx(math.log(24) / 4, abs=4 * error), schedule
    absorbing = objectives.create("d3pm", corruption="absorbing", noise_levels=2000, symbols=3)
    assert isinstance(absorbing, D3PM)
    limit, its_error = exact_bound(absorbing, GRAMMAR, repeats=1000)
    assert limit == pytest.approx(float(found.mean()), abs=4 * math.hypot(error, its_error))


ORACLE_SAMPLERS = [
    ("uniform", D3PM(noise_levels=200, symbols=3)),
    ("uniform", D3PM(noise_levels=1000, sampler_levels=200, schedule="cosine", evidence=False, symbols=3)),
    ("absorbing", D3PM(noise_levels=200, corruption="absorbing", symbols=3)),
    ("absorbing", Masked(sampler_levels=200)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("corruption", "objective"), ORACLE_SAMPLERS, ids=str)
def test_with_belief_propagation_as_the_network_samples_are_valid_and_uniform(
    corruption: str, objective: objectives.Objective
) -> None:
    network = oracles.restoring_network(oracles.rule_posterior(GRAMMAR), CORRUPTIONS[corruption], 3)
    noise = objective.draw_noise(2400, (4,), torch.Generator().manual_seed(0))
    strings = sample(objective, objective.network_of(network) if isinstance(objective, D3PM) else network, noise)
    valid = GRAMMAR.is_valid(strings)
    assert float(valid.double().mean()) > 0.97  # two tokens that change in one step do not know of each other
    keys = row_keys(strings[valid], 3)
    known = row_keys(GRAMMAR.enumerate(), 3)
    counts = torch.tensor([(keys == key).sum() for key in known]).double()
    expected = counts.sum() / 24
    chi = float(((counts - expected) ** 2 / expected).sum())
    assert chi < 23 + 4.5 * math.sqrt(2 * 23), f"χ² of {chi:.1f} with 23 degrees of freedom"


@pytest.mark.slow
def test_a_trained_network_reaches_the_loss_of_the_exact_posterior_and_no_less() -> None:
    rule = RandomHierarchy(depth=1, branching=2, vocabulary=4, synonyms=2, rule_seed=1)
    objective = objectives.create("d3pm", noise_levels=50, symbols=4)
    torch.manual_seed(0)
    network = models.create("unet1d", width=64).build((2,), 4)
    rates = network.learning_rates("adam")  # type: ignore[operator]
    groups = [{"params": [p], "lr": 0.02 * rates[name]} for name, p in network.named_parameters()]
    optimizer = torch.optim.Adam(groups)
    strings = rule.enumerate()
    for step in range(800):
        optimizer.zero_grad()
        rows = strings.repeat(16, 1)
        objective.loss(network, rows, torch.Generator().manual_seed(step)).mean().backward()
        optimizer.step()
    assert isinstance(objective, D3PM)
    oracle = objective.network_of(oracles.restoring_network(oracles.rule_posterior(rule), oracles.UniformNoise, 4))
    rows = strings.repeat(2000, 1)
    with torch.no_grad():
        losses = [objective.loss(one, rows, torch.Generator().manual_seed(10**6)).double() for one in (network, oracle)]
    gap = losses[0] - losses[1]
    error = float(gap.std()) / math.sqrt(len(gap))
    assert -4 * error < float(gap.mean()) < 0.05 * float(losses[1].mean()) + 4 * error


def test_uniform_numbers_are_uniform_independent_and_repeatable() -> None:
    seeds = draw_seeds(20_000, (2,), torch.Generator().manual_seed(0))
    first, second = uniforms(seeds, 0), uniforms(seeds, 1)
    assert torch.equal(first, uniforms(seeds, 0)) and float(first.min()) >= 0 and float(first.max()) < 1
    for numbers in (first, second):
        counts = torch.histc(numbers, 20, 0, 1)
        assert float(((counts - 2000) ** 2 / 2000).sum()) < 19 + 4.5 * math.sqrt(38)
    stacked = torch.stack([first[:, 0], first[:, 1], second[:, 0]])
    assert float((torch.corrcoef(stacked) - torch.eye(3)).abs().max()) < 0.03
    assert torch.equal(uniforms(seeds[5:6], 7), uniforms(seeds, 7)[5:6])
    neighbours = seeds[:1] + torch.arange(64)[:, None]
    streams = torch.cat([uniforms(neighbours, count) for count in range(64)], dim=1)
    assert len(streams.flatten().unique()) > 0.99 * streams.numel(), "neighbouring seeds share their numbers"


def test_picked_symbols_have_their_probabilities_and_never_one_that_does_not_exist() -> None:
    probabilities = torch.tensor([0.2, 0.0, 0.5, 0.3])
    grid = (torch.arange(1000) + 0.5) / 1000
    found = torch.bincount(sample_categorical(probabilities.expand(1000, 4), grid), minlength=4)
    assert found.tolist() == [200, 0, 500, 300]
    rounded = torch.tensor([[0.3333333, 0.3333333, 0.3333333]])
    assert int(sample_categorical(rounded, torch.tensor([0.99999994]))) == 2


def test_the_sampler_visits_levels_from_the_last_to_zero() -> None:
    objective = D3PM(noise_levels=1000, sampler_levels=7, symbols=3)
    levels = [objective.level_before(step) for step in range(8)]
    assert levels[0] == 1000 and levels[-1] == 0 and levels == sorted(set(levels), reverse=True)
    assert [D3PM(noise_levels=5, symbols=3).level_before(step) for step in range(6)] == [5, 4, 3, 2, 1, 0]


def test_levels_are_uniform_and_spread_over_the_rows() -> None:
    objective = D3PM(noise_levels=10, symbols=3)
    clean = torch.zeros(40, 4, dtype=torch.int64)
    for seed in range(5):
        levels = objective.draw(clean, torch.Generator().manual_seed(seed))[0]
        assert torch.bincount(levels, minlength=11).tolist() == [0] + [4] * 10


def test_a_network_that_says_nothing_knows_the_symbols_and_no_rule() -> None:
    """With the likelihood of each token added (evidence), output zero is optimal for independent uniform symbols."""
    objective = D3PM(noise_levels=300, symbols=5)
    clean = torch.randint(5, (4000, 3), generator=torch.Generator().manual_seed(1))
    silent = objective.loss(
        lambda tokens, noise: torch.zeros(*tokens.shape, 5), clean, torch.Generator().manual_seed(2)
    )
    oracle = objective.network_of(oracles.restoring_network(oracles.cube_posterior, oracles.UniformNoise, 5))
    ideal = objective.loss(oracle, clean, torch.Generator().manual_seed(2))
    assert torch.allclose(silent, ideal, atol=1e-3)
    error = float(silent.std()) / math.sqrt(len(silent))
    assert float(silent.mean()) == pytest.approx(math.log(5), abs=0.01 + 4 * error)


def test_the_vocabulary_is_the_rules() -> None:
    assert D3PM().fitted(7).symbols == 7
    with pytest.raises(SettingError, match=r"objective.symbols.*rule has 7"):
        D3PM(symbols=5).fitted(7)
    with pytest.raises(SettingError, match="fitted"):
        D3PM().draw_noise(2, (3,), torch.Generator()), D3PM().vocabulary
    with pytest.raises(SettingError, match="noise_levels"):
        D3PM(noise_levels=5, sampler_levels=6)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["unet1d", "gpt_full"])
@pytest.mark.parametrize("name", ["uniform", "absorbing", "masked"])
def test_contracts(name: str, model: str) -> None:
    objective = Masked(sampler_levels=9) if name == "masked" else D3PM(corruption=name, noise_levels=100, symbols=5)  # type: ignore[arg-type]
    sizes = {"width": 32} if model == "unet1d" else {"width": 32, "depth": 2, "heads": 2}
    network = models.create(model, **sizes)
    check_objective(objective, network, (8,), 5)
    if model == "unet1d" or name == "masked":  # a small transformer needs thousands of steps for replaced tokens
        check_model(network, (8,), 5, objective, steps=600 if name == "uniform" else 300)
