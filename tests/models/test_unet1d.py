"""The U-Net of strings: its tree, and that nothing about its training depends on its width."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from twoclocks import data, models, objectives
from twoclocks.core.errors import SettingError
from twoclocks.rules import RandomHierarchy
from twoclocks.training.loop import TrainingSettings
from twoclocks.training.optimizer import make_optimizer, names_in_order

RULE = RandomHierarchy(depth=3, branching=2, vocabulary=8, synonyms=4)
TRAIN = data.training_set(RULE, 256)
RATES = {"adam": (0.01, 0.03, 0.1, 0.3, 1.0), "sgd": (0.02, 0.06, 0.2, 0.6, 2.0)}


def network(width: int, **more: object) -> nn.Module:
    torch.manual_seed(0)
    return models.create("unet1d", width=width, **more).build((8,), 8)


def trained(width: int, optimizer: str, rate: float, steps: int) -> tuple[nn.Module, list[float]]:
    """Trained for some steps on the grammar, with the losses on the way."""
    model = network(width)
    settings = TrainingSettings(steps=steps, optimizer=optimizer, learning_rate=rate)  # type: ignore[arg-type]
    updates = make_optimizer(model, settings)
    objective = objectives.create("d3pm", symbols=8)
    stream = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(steps):
        rows = TRAIN[torch.randint(len(TRAIN), (32,), generator=stream)]
        updates.zero_grad()
        loss = objective.loss(model, rows, stream).mean()
        loss.backward()
        updates.step()
        losses.append(float(loss.detach()))
    return model, losses


def features(model: nn.Module) -> tuple[Tensor, Tensor]:
    """What the network holds at its top, and what it says, about some strings."""
    found: list[Tensor] = []
    handle = model.down[-1].register_forward_hook(lambda *given: found.append(given[-1]))  # type: ignore[index, union-attr]
    with torch.no_grad():
        logits = model(TRAIN[:64], torch.full((64,), 0.5))
    handle.remove()
    return found[0], logits


def size(values: Tensor) -> float:
    return float(values.square().mean().sqrt())


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "rate"), [("adam", 0.03), ("sgd", 0.1)])
def test_features_and_answers_change_alike_at_every_width(optimizer: str, rate: float) -> None:
    changes = []
    for width in (64, 256, 1024):
        before = features(network(width))
        after = features(trained(width, optimizer, rate, steps=10)[0])
        changes.append([size(b - a) for a, b in zip(before, after, strict=True)])
    for part in zip(*changes, strict=True):  # hidden features; logits
        assert max(part) / min(part) < 1.6, part
        assert min(part) > 0.01, "nothing was learned: the comparison says nothing"


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_best_learning_rate_does_not_depend_on_the_width(optimizer: str) -> None:
    best = []
    for width in (32, 256):
        ends = []
        for rate in RATES[optimizer]:
            losses = trained(width, optimizer, rate, steps=60)[1]
            ends.append(sum(losses[-20:]) / 20)
        finite = [end if math.isfinite(end) else math.inf for end in ends]
        best.append(finite.index(min(finite)))
        assert 0 < best[-1] < len(ends) - 1, f"the best rate lies outside those that were tried: {ends}"
    # Neighbours on the grid may tie. In the standard parametrization the rate would fall with the width, by 8.
    assert max(best) - min(best) <= 1, best


def test_in_the_standard_parametrization_it_would() -> None:
    """The control: without rates by layer, changes grow with the width."""
    changes = []
    for width in (64, 1024):
        model = network(width)
        start = features(model)[1]
        model.learning_rates = lambda kind: {}  # type: ignore[assignment]
        updates = make_optimizer(model, TrainingSettings(steps=1, learning_rate=1e-4))
        objective = objectives.create("d3pm", symbols=8)
        for step in range(2):
            updates.zero_grad()
            objective.loss(model, TRAIN[:32], torch.Generator().manual_seed(step)).mean().backward()
            updates.step()
        changes.append(size(features(model)[1] - start))
    assert changes[1] / changes[0] > 3


@pytest.mark.parametrize("width", [64, 1024])
def test_initial_features_are_of_order_one(width: int) -> None:
    hidden, logits = features(network(width))
    assert 0.3 < size(hidden) < 3 and size(logits) < 5 / math.sqrt(width)


def test_the_tree_is_that_of_the_strings() -> None:
    assert [tuple(layer.weight.shape) for layer in network(16).down] == [(16, 32)] * 3  # type: ignore[union-attr]
    six = models.create("unet1d", width=16, branching=6).build((36,), 2)
    assert len(six.down) == 2 and six(torch.zeros(3, 36, dtype=torch.int64), torch.ones(1)).shape == (3, 36, 2)  # type: ignore[arg-type]
    two = models.create("unet1d", width=16, branching=2, depth=2)
    assert len(two.build((36,), 2).down) == 2  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"branching.*36"):
        models.create("unet1d", width=16).check_shape((36,))
    with pytest.raises(SettingError, match=r"depth: 3.*2\^3 = 8"):
        models.create("unet1d", width=16, depth=3).check_shape((36,))
    with pytest.raises(SettingError, match="branching"):
        models.create("unet1d", width=16).build((36,), 2)


def test_every_token_hears_of_every_other_and_of_the_noise() -> None:
    model = network(32)
    tokens, noise = TRAIN[:1], torch.tensor([0.5])
    with torch.no_grad():
        said = model(tokens, noise)
        for place in range(8):
            other = tokens.clone()
            other[0, place] = (other[0, place] + 1) % 8
            assert bool(((model(other, noise) - said).abs().amax(dim=2) > 0).all()), place
        assert float((model(tokens, torch.tensor([0.1])) - said).abs().max()) > 0
        deaf = network(32, told_noise=False)
        assert torch.equal(deaf(tokens, torch.tensor([0.1])), deaf(tokens, noise))


def test_width_8192_has_the_expected_number_of_parameters() -> None:
    with torch.device("meta"):
        model = models.create("unet1d", width=8192).build((8,), 16)
    inner = 2 * 3 * 2 * 8192**2  # levels both ways, two neighbours
    assert models.parameter_count(model) == pytest.approx(inner, rel=0.001)


def test_rates_are_those_of_the_table() -> None:
    """Yang et al. 2022, Table 3: by what each parameter reads and writes, width 16, two neighbours, 8 symbols."""
    model = network(16)
    adam, descent = (model.learning_rates(kind) for kind in ("adam", "sgd"))  # type: ignore[operator]
    assert adam["embedding.weight"] == adam["noise.weight"] == adam["embedding.bias"] == adam["down.0.bias"] == 1
    assert adam["down.0.weight"] == 1 / 32 and adam["up.0.weight"] == adam["head.weight"] == 1 / 16
    assert adam["head.bias"] == adam["up.1.bias"] == 1
    assert descent["embedding.weight"] == descent["noise.weight"] == descent["embedding.bias"] == 16
    assert descent["down.2.weight"] == descent["up.2.weight"] == descent["head.bias"] == 1
    assert descent["down.2.bias"] == 16 and descent["up.2.bias"] == 32 and descent["head.weight"] == 1 / 16
    assert set(adam) == set(descent) == {name for name, _ in model.named_parameters()}


def test_features_keep_their_size_through_many_levels() -> None:
    torch.manual_seed(0)
    deep = models.create("unet1d", width=512).build((64,), 8)
    found: list[Tensor] = []
    for layer in deep.down:  # type: ignore[union-attr]
        layer.register_forward_hook(lambda *given: found.append(given[-1]))
    with torch.no_grad():
        deep(torch.randint(8, (32, 64)), torch.full((32,), 0.5))
    assert 0.4 < size(found[-1]) / size(found[0]) < 2.5  # before GELU; with half the variance it would be an eighth


def test_names_follow_the_order_of_the_optimizer() -> None:
    model = network(8)
    updates = make_optimizer(model, TrainingSettings(steps=1))
    parameters = dict(model.named_parameters())
    ordered = [p for group in updates.param_groups for p in group["params"]]
    assert [parameters[name] is p for name, p in zip(names_in_order(model, updates), ordered, strict=True)] == [
        True
    ] * len(ordered)
    assert len({group["lr"] for group in updates.param_groups}) == len(updates.param_groups) > 1
