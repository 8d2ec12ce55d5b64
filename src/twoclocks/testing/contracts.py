"""What every rule, encoding, model and objective must do, whoever wrote it."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from twoclocks.core.config import build, to_mapping
from twoclocks.core.errors import UserError
from twoclocks.core.rows import row_keys
from twoclocks.data.encodings import Encoding
from twoclocks.data.sets import held_out, training_set
from twoclocks.models.base import ModelSettings, Network
from twoclocks.objectives import OBJECTIVES
from twoclocks.objectives.base import Objective, sample
from twoclocks.rules.base import MOST_TRIED, Rule, all_parts_valid, in_range
from twoclocks.testing.capabilities import check_capabilities

TRIED, FEW = 1 << 16, 1 << 10  # arrays that are tried, and valid ones that are listed, for exact checks


def check_rule(rule: Rule) -> None:
    """Samples are valid, repeatable and in range; counts and chances agree with enumeration where that is possible."""
    assert build(type(rule), to_mapping(rule)) == rule, "a rule must be rebuilt from its own settings"
    x = rule.sample(64, seed=3)
    assert x.shape == (64, *rule.shape) and x.dtype == torch.int64, "sample must return int64 (n, *shape)"
    assert bool(in_range(x, rule.symbols).all()), "sample leaves the symbols 0 … symbols−1"
    assert bool(rule.is_valid(x).all()), "sample returns invalid rows"
    assert torch.equal(x, rule.sample(64, seed=3)), "sample must depend on its seed alone"
    assert rule.count() == 1 or not torch.equal(x, rule.sample(64, seed=4)), "sample ignores its seed"
    assert rule.is_valid(rule.empty(0)).shape == (0,), "is_valid must accept no rows"
    beyond = x.clone()
    beyond.view(64, -1)[:, 0] = rule.symbols
    assert not bool(rule.is_valid(beyond).any()), "is_valid must refuse symbols out of range"
    check_parts(rule, x)
    assert 0 <= rule.chance() <= 1, f"chance() is {rule.chance()}, not a probability"
    assert 1 <= rule.support() <= rule.count(), (
        f"support() {rule.support()} must lie between 1 and count() {rule.count()}"
    )
    if not rule.is_corpus:
        assert math.isclose(rule.copy_chance(1), 1 / rule.support()), "copy_chance(1) must be 1 / support()"
    assert all(name and isinstance(at, int) and at > 0 for name, at in rule.milestones().items()), (
        "milestones() must return an integer above 0 for every name"
    )
    check_partition(rule)
    if rule.symbols ** math.prod(rule.shape) <= TRIED:
        check_by_trying_all(rule)
    listable = type(rule).members is not Rule.members or rule.symbols ** math.prod(rule.shape) <= MOST_TRIED
    if rule.support() <= FEW and listable:
        check_list(rule)
    check_sets(rule)


def check_parts(rule: Rule, x: Tensor) -> None:
    parts, verdicts = rule.parts(x), rule.parts_valid(x)
    assert parts.keys() == verdicts.keys() == rule.part_counts().keys() == rule.part_chance().keys()
    for kind, valid in verdicts.items():
        assert valid.dtype == torch.bool and valid.shape == parts[kind].shape[:2], (
            f"parts_valid[{kind!r}] has a wrong shape"
        )
        assert bool(valid.all()), f"a valid sample has an invalid {kind}"


def check_sets(rule: Rule) -> None:
    n = min(16, rule.support() // 2)
    if n < 2:
        return
    train = training_set(rule, n, seed=1)
    other = held_out(rule, train, n, seed=1)
    keys = row_keys(torch.cat([train, other]), rule.symbols)
    assert len(set(keys.tolist())) == 2 * n, "training and held-out rows must be unique and disjoint"
    assert bool(rule.is_valid(torch.cat([train, other])).all())


def check_partition(rule: Rule) -> None:
    """With zero logits the partition sum counts the valid set."""
    zeros = torch.zeros(2, math.prod(rule.shape), rule.symbols, dtype=torch.float64)
    found = rule.log_partition(zeros)
    if found is not None:
        assert found.shape == (2,), "log_partition must return one number per row"
        assert torch.allclose(found, torch.tensor(math.log(rule.count()), dtype=torch.float64)), (
            f"exp(log_partition(0)) is {float(found[0].exp()):.6g}, count() is {rule.count()}"
        )


def check_by_trying_all(rule: Rule) -> None:
    """Count and chances against all arrays of symbols."""
    every = torch.cartesian_prod(*[torch.arange(rule.symbols)] * math.prod(rule.shape)).reshape(-1, *rule.shape)
    valid = rule.is_valid(every)
    assert torch.equal(valid, all_parts_valid(rule.parts_valid(every))), "is_valid must agree with parts_valid"
    assert int(valid.sum()) == rule.count(), f"count() is {rule.count()}, enumeration finds {int(valid.sum())}"
    assert math.isclose(rule.chance(), float(valid.double().mean()), rel_tol=1e-9)
    for kind, pieces in rule.parts_valid(every).items():
        assert math.isclose(rule.part_chance()[kind], float(pieces.double().mean()), rel_tol=1e-9), kind


def check_list(rule: Rule) -> None:
    """The listed support: valid, complete, what ``sample`` reaches, what ``log_partition`` sums, pieces as declared."""
    members = rule.enumerate()
    keys = set(row_keys(members, rule.symbols).tolist())
    assert len(members) == len(keys) == rule.support(), f"enumerate() lists {len(keys)}, support() is {rule.support()}"
    assert bool(rule.is_valid(members).all()), "enumerate() lists invalid arrays"
    drawn = set(row_keys(rule.sample(32 * rule.support(), seed=5), rule.symbols).tolist())
    assert drawn == keys, f"sample reaches {len(drawn & keys)} of {len(keys)} arrays"
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, math.prod(rule.shape), rule.symbols, generator=generator, dtype=torch.float64)
    found = rule.log_partition(logits)
    if found is not None:
        picked = logits[:, torch.arange(logits.shape[1]), members.flatten(1)]  # (3, members, entries)
        assert torch.allclose(found, picked.sum(dim=2).logsumexp(dim=1)), "log_partition differs from enumeration"
    for kind, pieces in rule.parts(members).items():
        for place in range(pieces.shape[1]):
            contents = torch.unique(pieces[:, place], dim=0, return_counts=True)[1]
            uniform = len(contents) == rule.part_counts()[kind] and bool((contents == contents[0]).all())
            assert uniform or not rule.uniform_parts, f"a {kind} is not uniform; set uniform_parts = False"


def check_encoding(encoding: Encoding, rule: Rule) -> None:
    """Decoding inverts encoding, at distance zero from the code book."""
    encoding.check_rule(rule)
    symbols = rule.sample(32, seed=0)
    encoded = encoding.encode(rule, symbols)
    assert tuple(encoded.shape) == (32, *encoding.shape(rule))
    decoded = encoding.decode(rule, encoded)
    assert torch.equal(decoded.symbols, symbols), "decode must invert encode"
    assert float(decoded.distance.max()) == 0.0, "a code word lies at distance zero"


def check_objective(objective: Objective, model: ModelSettings, shape: tuple[int, ...], symbols: int) -> None:
    """The loss is finite, per sample, and repeatable; sampling is a function of each row's own noise."""
    network = randomised(model, shape, symbols)
    clean = example_batch(objective.kind, 6, shape, symbols)
    first, again = (objective.loss(network, clean, torch.Generator().manual_seed(5)) for _ in range(2))
    assert first.shape == (6,) and bool(torch.isfinite(first).all()), "loss must be finite, one number per sample"
    assert torch.equal(first, again), "the loss must draw from its generator alone"
    drawn = objective.draw(clean, torch.Generator().manual_seed(5))
    assert all(len(part) == 6 for part in drawn), "what is drawn must be drawn row by row"
    parts = zip(clean.split(4), *(part.split(4) for part in drawn), strict=True)
    alone = torch.cat([objective.loss_given(network, *part) for part in parts])
    assert torch.allclose(alone, first, rtol=1e-4, atol=1e-6), "a row's loss must not depend on its neighbours"
    check_capabilities(objective, network, clean, symbols)
    noise = objective.draw_noise(6, shape, torch.Generator().manual_seed(1))
    calls = 0

    def counted(*inputs: Any) -> Tensor:
        nonlocal calls
        calls += 1
        output: Tensor = network(*inputs)
        return output

    together, apart = sample(objective, counted, noise), sample(objective, network, noise, chunk=2)
    expected = objective.network_calls(noise.shape[1])
    assert calls == expected, f"network_calls must be the number of calls of the sampler: {calls}, not {expected}"
    assert tuple(together.shape) == (6, *shape), "samples must have the shape of encoded data"
    assert torch.allclose(together.float(), apart.float(), atol=1e-4), "a sample must not depend on its neighbours"


def check_model(
    model: ModelSettings, shape: tuple[int, ...], symbols: int, objective: Objective, steps: int = 400
) -> None:
    """Shapes fit, every parameter gets a gradient, eight rows can be learned by heart, and samples can be drawn.

    It is trained with ``objective``, and called as training and sampling of every objective of its task do.
    """
    network = randomised(model, shape, symbols)
    for other in [objective, *objectives_of(model, symbols)]:
        check_calls(network, other, shape, symbols)
    clean = example_batch(objective.kind, 8, shape, symbols)
    objective.loss(network, clean, torch.Generator().manual_seed(0)).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.abs().sum() > 0), f"{name} gets no gradient"

    torch.manual_seed(0)
    network = model.build(shape, symbols)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    noise = torch.Generator()
    with torch.no_grad():
        before = float(objective.loss(network, clean, noise.manual_seed(0)).mean())
    for step in range(steps):
        optimizer.zero_grad()
        loss = objective.loss(network, clean.repeat(4, *[1] * len(shape)), noise.manual_seed(step)).mean()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        fresh = [objective.loss(network, clean, noise.manual_seed(10_000 + k)).mean() for k in range(20)]
    after = float(torch.stack(fresh).mean())
    assert after < 0.5 * before, f"eight rows are not learned: the loss went from {before:.3f} to {after:.3f}"


def objectives_of(model: ModelSettings, symbols: int) -> list[Objective]:
    """Every registered objective that fits the network, as far as it can be made without settings."""
    found = []
    for name, cls in OBJECTIVES.items():
        if cls.task == model.task:
            with suppress(UserError):
                found.append(OBJECTIVES.create(name).fitted(symbols))
    return [objective for objective in found if objective.predicts_variance == model.predicts_variance]


def check_calls(network: Network, objective: Objective, shape: tuple[int, ...], symbols: int) -> None:
    """A network answers the calls of training and of sampling, for batches of any size."""
    name = type(objective).__name__
    clean = example_batch(objective.kind, 5, shape, symbols)
    loss = objective.loss(network, clean, torch.Generator().manual_seed(0))
    assert loss.shape == (5,) and bool(torch.isfinite(loss).all()), f"the loss of {name} is not finite, one per sample"
    noise = objective.draw_noise(5, shape, torch.Generator().manual_seed(1))
    samples = sample(objective, network, noise, chunk=3)
    assert tuple(samples.shape) == (5, *shape), f"samples of {name} have shape {tuple(samples.shape)}"
    assert bool(torch.isfinite(samples.float()).all()), f"samples of {name} are not finite"


def randomised(model: ModelSettings, shape: tuple[int, ...], symbols: int) -> Network:
    """A network without zero-initialised layers, through which every parameter matters."""
    torch.manual_seed(0)
    network = model.build(shape, symbols)
    assert isinstance(network, Network), "build must return a Network (twoclocks.models.base), which is a torch module"
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return network


def example_batch(kind: str, n: int, shape: tuple[int, ...], symbols: int) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    x = torch.randint(symbols, (n, *shape), generator=generator)
    return x if kind == "tokens" else 2.0 * x.float() / max(1, symbols - 1) - 1
