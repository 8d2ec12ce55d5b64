"""Fused forward passes against the textbook's: outputs and every gradient, on Triton's interpreter or on the GPU."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache, partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks import models
from twoclocks.core.config import build
from twoclocks.kernels import fused_forward, fusions, make_form
from twoclocks.kernels.cpu_functions import prefers_onednn
from twoclocks.kernels.cpu_operations import CpuForm
from twoclocks.kernels.linear_layers import LinearForm
from twoclocks.kernels.registry import FUSIONS, MixedForm
from twoclocks.models import Network
from twoclocks.models.gpt import GPT
from twoclocks.objectives import EDM
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.testing.contracts import randomised
from twoclocks.training.loop import TrainingSettings
from twoclocks.training.optimizer import make_optimizer, use_kernels
from twoclocks.training.order import RandomOrder
from twoclocks.training.step import PlainStep, finish_gradients, undone, updates_early

pytest.importorskip("triton")
from twoclocks.kernels import corruption, tma
from twoclocks.kernels.adam import FlatAdam
from twoclocks.kernels.flat_descent import FlatDescent
from twoclocks.kernels.fused_objectives import FusedEDM, fused_objective
from twoclocks.kernels.operations import Update
from twoclocks.kernels.triton_operations import TritonForm, TritonOperations

pytestmark = pytest.mark.slow  # Triton's interpreter takes about a second per network
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EXACTLY = pytest.mark.skipif(DEVICE == "cuda", reason="compares last digits of float32, which a GPU does not promise")
HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # which the interpreter cannot multiply in bfloat16
ODD = [("dit", (1, 2, 3), 2, 20, 5), ("gpt", (130,), 2, 16, 1), ("gpt", (1,), 2, 16, 1)]  # beyond the kernels: torch
CASES = [
    ("dit", (1, 3, 4), 2),
    ("dit", (3, 2, 5), 2),
    ("gpt", (10,), 2),
    ("gpt", (17,), 5),
    ("gpt", (5,), 40),
    ("gpt_full", (10,), 3),
]


def inputs(name: str, shape: tuple[int, ...], symbols: int, n: int = 3) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    if name.startswith("gpt"):
        tokens = torch.randint(symbols, (n, *shape), generator=generator)
        tokens[:, 0] = -1
        return (tokens.to(DEVICE),) if name == "gpt" else (tokens.to(DEVICE), torch.linspace(0.1, 0.9, n).to(DEVICE))
    x = torch.randn((n, *shape), generator=generator), torch.randn(n, generator=generator)
    return tuple(part.to(DEVICE) for part in x)


def gradients(network: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
    out = network(*given)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(out.device)
    (out.float() * weights).sum().backward()
    finish_gradients(network)
    return out.detach().float(), {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


def twins(
    name: str, shape: tuple[int, ...], symbols: int, dtype: torch.dtype, width: int = 32, depth: int = 2, **more: object
) -> tuple[nn.Module, nn.Module]:
    chosen = models.create(name, width=width, depth=depth, heads=width // 16, **more)
    plain = randomised(chosen, shape, symbols).to(DEVICE)
    fused = copy.deepcopy(plain)
    fused.fused = TritonForm(fused, dtype)
    return plain, fused


def difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize(("name", "shape", "symbols"), CASES)
def test_fused_network_has_the_outputs_and_gradients_of_the_plain_one(
    name: str, shape: tuple[int, ...], symbols: int
) -> None:
    plain, fused = twins(name, shape, symbols, torch.float32)
    given = inputs(name, shape, symbols)
    (out, slopes), (out_fused, slopes_fused) = gradients(plain, given), gradients(fused, given)
    loose = 100 if DEVICE == "cuda" else 1  # where products of float32 are made in TF32
    assert difference(out_fused, out) < 1e-5 * loose
    assert set(slopes) == set(slopes_fused)
    for key, slope in slopes.items():
        assert difference(slopes_fused[key], slope) < 1e-4 * loose, key


REGISTERS, DROPOUT = {"registers": 2}, {"dropout": 0.3}


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("more", [REGISTERS, DROPOUT, {**REGISTERS, **DROPOUT}], ids=["registers", "dropout", "both"])
@pytest.mark.parametrize(("name", "shape", "symbols"), [CASES[0], CASES[2], CASES[5]])
def test_fused_registers_and_dropout_have_the_outputs_and_gradients_of_the_plain_ones(
    name: str, shape: tuple[int, ...], symbols: int, more: dict[str, float], dtype: torch.dtype
) -> None:
    """Masks are hashes of the rows, so both forms drop the same entries."""
    plain, fused = twins(name, shape, symbols, dtype, depth=1, **more)
    given = inputs(name, shape, symbols)
    (out, slopes), (out_fused, slopes_fused) = gradients(plain, given), gradients(fused, given)
    loose = 1e-2 if dtype == HALF else 2e-3 if DEVICE == "cuda" else 1e-5  # a GPU's matrix units round to TF32
    assert out_fused.shape == out.shape and difference(out_fused, out) < loose
    assert set(slopes) == set(slopes_fused) and ("registers.vectors" in slopes) == ("registers" in more)
    for key, slope in slopes.items():
        assert difference(slopes_fused[key], slope) < 5 * loose, key
    with torch.no_grad():
        still, still_fused = plain.eval()(*given), fused.eval()(*given)
        assert difference(still_fused.float(), still) < loose
        assert (difference(still, out) > 0.01) == ("dropout" in more)


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize(("patch", "shape"), [(2, (3, 4, 6)), (4, (3, 8, 4))])  # tokens of 12 and 48 entries
def test_fused_patches_have_the_outputs_and_gradients_of_the_plain_ones(
    patch: int, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """48 entries are more than the kernels of narrow layers take: such layers are torch's."""
    plain, fused = twins("dit", shape, 2, dtype, depth=1, patch=patch)
    given = inputs("dit", shape, 2)
    (out, slopes), (out_fused, slopes_fused) = gradients(plain, given), gradients(fused, given)
    loose = 1e-2 if dtype == HALF else 2e-3 if DEVICE == "cuda" else 1e-5  # a GPU's matrix units round to TF32
    assert out_fused.shape == out.shape and difference(out_fused, out) < loose
    assert set(slopes) == set(slopes_fused)
    for key, slope in slopes.items():
        assert difference(slopes_fused[key], slope) < 5 * loose, key


@pytest.mark.parametrize(("name", "shape", "symbols"), CASES)
def test_half_precision_differs_by_its_rounding_only(name: str, shape: tuple[int, ...], symbols: int) -> None:
    plain, fused = twins(name, shape, symbols, HALF, depth=1)
    given = inputs(name, shape, symbols)
    (out, slopes), (out_fused, slopes_fused) = gradients(plain, given), gradients(fused, given)
    assert difference(out_fused, out) < 0.02
    for key, slope in slopes.items():
        assert difference(slopes_fused[key], slope) < 0.05, key


@pytest.mark.parametrize(
    ("optimizer", "decay", "momentum"),
    [("adam", 0, 0), ("adam", 0.1, 0), ("adamw", 0.1, 0), ("sgd", 0, 0), ("sgd", 0.1, 0), ("sgd", 0.1, 0.9)],
)
def test_flat_optimizers_are_torchs(optimizer: str, decay: float, momentum: float) -> None:
    """The same updates as torch's for the same gradients, shadows and interchangeable state included."""
    plain, fused = twins("gpt", (10,), 2, torch.bfloat16, depth=1)
    chosen = {"optimizer": optimizer, "weight_decay": decay, "momentum": momentum}
    settings = TrainingSettings(steps=1, learning_rate=1e-2, **chosen)  # type: ignore[arg-type]
    ours, theirs = make_optimizer(fused, settings), make_optimizer(plain, settings)
    assert isinstance(ours, FlatDescent if optimizer == "sgd" else FlatAdam)
    generator = torch.Generator().manual_seed(0)
    for step in range(12):
        for mine, other in zip(fused.parameters(), plain.parameters(), strict=True):
            slope = torch.randn(mine.shape, generator=generator).to(DEVICE) * 10.0 ** (step % 5 - 4)
            mine.grad, other.grad = slope, slope.clone()
        fused.fused.flat.gather()
        ours.step()
        theirs.step()
        if step in (0, 6):
            theirs.load_state_dict(
                {**copy.deepcopy(ours.state_dict()), "param_groups": theirs.state_dict()["param_groups"]}
            )
            ours.load_state_dict(
                {**copy.deepcopy(theirs.state_dict()), "param_groups": ours.state_dict()["param_groups"]}
            )
    for mine, other in zip(fused.parameters(), plain.parameters(), strict=True):
        assert difference(mine.detach(), other.detach()) < (3e-5 if DEVICE == "cuda" else 1e-5)
        assert torch.allclose(fused.fused.operations.shadow(mine).float(), mine, rtol=2**-7)  # the interpreter cuts off


def early_and_late(
    early: nn.Module, given: tuple[Tensor, ...], steps: int
) -> tuple[list[FlatAdam], list[list[tuple[int, int]]]]:
    """Train a network with updates during the backward pass, and its copy with updates after it: equal to the bit."""
    late = copy.deepcopy(early)
    late.fused = TritonForm(late, HALF)
    optimizers, parts = [FlatAdam(network.fused.flat, lr=1e-2) for network in (early, late)], []
    for step in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        with optimizers[0].during_backward():
            gradients(early, given)
        gradients(late, given)
        parts.append(list(optimizers[0].updated))
        one, other = early.fused.flat, late.fused.flat
        for optimizer in optimizers:
            optimizer.step()
        names = {parameter: name for name, parameter in early.named_parameters()}
        for kind in ("gradients", "values", "shadows"):
            pairs = zip(one.parameters, other.parameters, strict=True)
            there = [(names[a], one.view(getattr(one, kind), a), other.view(getattr(other, kind), b)) for a, b in pairs]
            assert [name for name, mine, theirs in there if not torch.equal(mine, theirs)] == [], (kind, step)
    return optimizers, parts


@pytest.mark.parametrize(("name", "shape"), [("dit", (1, 2, 3)), ("gpt", (9,))])
def test_updates_during_the_backward_pass_are_those_after_it(name: str, shape: tuple[int, ...]) -> None:
    """A shadow that is renewed before the backward pass has read it would change all gradients in front of it."""
    _, early = twins(name, shape, 2, HALF, depth=3)
    optimizers, parts = early_and_late(early, inputs(name, shape, 2), steps=3)
    sizes = [sum(end - start for start, end in changed) for changed in parts]
    layers = [layer for block in early.blocks for layer in block.modules() if isinstance(layer, nn.Linear)]
    assert min(sizes) >= sum(layer.weight.numel() for layer in layers) and optimizers[0].updated == []
    assert early.fused.flat.early_update is None


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU, where the streams of a backward pass overtake each other")
@pytest.mark.parametrize(("name", "shape"), [("dit", (1, 6, 6)), ("gpt", (37,))])
def test_updates_during_the_backward_pass_are_those_after_it_at_the_size_of_a_run(
    name: str, shape: tuple[int, ...]
) -> None:
    _, early = twins(name, shape, 2, HALF, width=384, depth=6)
    early_and_late(early, inputs(name, shape, 2, n=256), steps=20)


@pytest.mark.parametrize(("name", "shape", "symbols", "width", "heads"), ODD)
@pytest.mark.parametrize("dtype", [torch.float32, HALF])
def test_shapes_that_no_kernel_takes_fall_back_to_the_same(
    name: str, shape: tuple[int, ...], symbols: int, width: int, heads: int, dtype: torch.dtype
) -> None:
    plain = randomised(models.create(name, width=width, depth=1, heads=heads), shape, symbols).to(DEVICE)
    fused = copy.deepcopy(plain)
    fused.fused = TritonForm(fused, dtype)
    given = inputs(name, shape, symbols, n=1 if shape == (130,) else 2)
    (out, slopes), (out_fused, slopes_fused) = gradients(plain, given), gradients(fused, given)
    loose = 1 if dtype == torch.float32 and DEVICE == "cpu" else 2000 if dtype == torch.bfloat16 else 500
    assert difference(out_fused, out) < 1e-5 * loose
    assert all(difference(slopes_fused[key], slope) < 1e-4 * loose for key, slope in slopes.items())


def test_matrices_for_the_tma_have_rows_of_whole_16_bytes() -> None:
    eight, ten = torch.zeros(4, 8, dtype=torch.float16), torch.zeros(4, 10, dtype=torch.float16)
    assert tma.fits(eight, eight) and not tma.fits(eight, ten)
    assert not tma.fits(eight.float(), eight.float()) and not tma.fits(eight.T, eight)


def test_corruption_is_the_textbooks() -> None:
    clean, noise, log_sigma = torch.randn(5, 1, 17, 19), torch.randn(5, 1, 17, 19), torch.linspace(-6, 4, 5)
    given = tuple(part.to(DEVICE) for part in (clean, log_sigma, noise))
    fused = corruption.precondition(*given, 0.7)
    plain = EDM(sigma_data=0.7, sampler_steps=9)
    for mine, other in zip(fused, plain.precondition(*given), strict=True):
        assert torch.allclose(mine, other, rtol=1e-5, atol=1e-6)
    replaced = fused_objective(plain)
    assert isinstance(replaced, FusedEDM) and vars(replaced) == vars(plain)
    for mine, other in zip(replaced.precondition(*given), fused, strict=True):
        assert torch.equal(mine, other)


@cache  # the interpreter takes seconds, and two tests want the steps of which none is undone
def stepped(name: str, fused: bool, dry_runs: int = 0, undo: int = 0) -> tuple[Tensor, PlainStep]:
    """Weights after two steps of a small network."""
    preset = {"dit": "demo", "gpt": "demo-gpt"}[name]
    small = {"model": {"width": 16, "depth": 1, "heads": 1}, "training.batch": 2, "training.kernels": "plain"}
    short = {"rule.length": 8, "rule.group": 4, "data.n": 4, "clocks.memory_threshold": 0.3}
    made = Experiment(load_settings(preset, {**small, **short, "training.threads": 1, "training.device": DEVICE}))
    if fused:
        made.network.fused = TritonForm(made.network, torch.float32)
        made.objective = fused_objective(made.objective)
        made.optimizer = make_optimizer(made.network, made.settings.training)
    order = RandomOrder(len(made.train_rows), 3, made.loop.generator)
    parts = made.network, made.optimizer, made.objective, made.shown(), order
    step = PlainStep(*parts, made.loop.generator, made.loop.loss_sum)
    for _ in range(dry_runs):
        made.dry_run()
    for number in range(2):
        if undo == number + 1:
            with undone(step):
                step()
                step()
        made.loop.generator.manual_seed(number)
        step()
    return torch.cat([p.detach().flatten() for p in made.network.parameters()]), step


@EXACTLY
@pytest.mark.parametrize("name", ["dit", "gpt"])
def test_fused_steps_are_plain_steps_also_after_a_dry_run(name: str) -> None:
    plain, _ = stepped(name, fused=False)
    assert difference(stepped(name, fused=True, dry_runs=1)[0], plain) < 1e-4


@cache
def straight_steps(fused: bool) -> tuple[Tensor, PlainStep]:
    """Steps without anything undone: the same for every test that compares with them."""
    return stepped("gpt", fused)


@EXACTLY
@pytest.mark.parametrize("undo", [1, 2])
@pytest.mark.parametrize("fused", [True, False])
def test_what_is_undone_leaves_no_trace(fused: bool, undo: int) -> None:
    """Before the first step, when there are no moments yet, and later."""
    (straight, one), (undoing, two) = straight_steps(fused), stepped("gpt", fused, undo=undo)
    assert torch.equal(straight, undoing) and torch.equal(one.loss_sum, two.loss_sum)
    assert torch.equal(one.generator.get_state(), two.generator.get_state())


def test_undone_restores_the_stream_and_the_shadows() -> None:
    _, step = stepped("gpt", fused=True)
    operations = step.network.fused.operations
    before = step.generator.get_state().clone(), operations.flat.shadows.clone()
    with undone(step):
        step()
        assert not torch.equal(operations.flat.shadows, before[1])
    assert torch.equal(step.generator.get_state(), before[0]) and torch.equal(operations.flat.shadows, before[1])


def test_adams_state_passes_to_a_fresh_one_and_an_empty_one_clears_it() -> None:
    _, fused = twins("gpt", (10,), 2, torch.float32)
    settings = TrainingSettings(steps=1, learning_rate=1e-2)
    other = copy.deepcopy(fused)
    other.fused = TritonForm(other, torch.float32)
    first, second = make_optimizer(fused, settings), make_optimizer(other, settings)
    empty = copy.deepcopy(second.state_dict())
    for parameter in fused.parameters():
        parameter.grad = torch.ones_like(parameter)
    fused.fused.flat.gather()
    first.step()
    first.step()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert torch.equal(second.steps, first.steps) and torch.equal(second.first, first.first)
    first.load_state_dict({**empty, "state": {}})
    assert not first.steps.any() and not first.first.any() and not first.second.any()


def test_sums_over_tokens_follow_the_number_of_samples() -> None:
    plain, fused = twins("gpt", (4,), 2, torch.float32, depth=1)
    for n in (3, 1, 3):
        for network in (plain, fused):
            network.zero_grad(set_to_none=True)
        given = inputs("gpt", (4,), 2, n)
        (_, slopes), (_, slopes_fused) = gradients(plain, given), gradients(fused, given)
        assert all(difference(slopes_fused[key], slope) < 1e-2 for key, slope in slopes.items())


def test_a_gate_before_a_normalisation_has_its_gradient_and_the_norms_gradient_stays_in_its_place() -> None:
    """The fused forward pass of a network of one's own may give the GPT's normalisation a gated update."""
    network = randomised(models.create("gpt", width=32, depth=1, heads=2), (4,), 2).to(DEVICE)
    operations = TritonOperations(network, torch.float32)
    flat, norm = operations.flat, network.blocks[0].attention_norm
    bias, gate = torch.linspace(-1, 1, 32, device=DEVICE), torch.rand(3, 32).to(DEVICE)
    tokens, value = (torch.randn(3, 4, 32).to(DEVICE) for _ in range(2))
    found: list[list[Tensor]] = []
    flat.gradients.fill_(7.0)
    for fused in (True, False):
        leaves = [part.clone().requires_grad_() for part in (tokens, value, gate)]
        if fused:
            moved, normed = operations.normalise(leaves[0], Update(leaves[1], bias, leaves[2]), norm)
        else:
            moved = leaves[0] + leaves[2][:, None] * (leaves[1] + bias)
            normed = functional.layer_norm(moved, (32,), norm.weight, norm.bias, norm.eps)
        (normed.square() + moved).sum().backward()  # the gradient of a sum is one number, repeated
        found.append([leaf.grad for leaf in leaves])
    for mine, other in zip(*found, strict=True):
        assert difference(mine, other) < (1e-3 if DEVICE == "cuda" else 1e-5)
    for parameter in (norm.weight, norm.bias):
        assert difference(flat.slots[parameter], parameter.grad) < 1e-4
    own = flat.places[norm.weight][0], flat.places[norm.bias][1]
    assert (flat.gradients[: own[0]] == 7).all() and (flat.gradients[own[1] :] == 7).all()


class Between(Network):
    """A layer with a parameter of its own between weight and bias, and layers that lie one behind the other."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        bias = self.layer.bias
        del self.layer.bias
        self.layer.scale = nn.Parameter(torch.ones(16))
        self.layer.bias = bias
        self.one, self.two = nn.Linear(16, 16), nn.Linear(16, 16)
        self.operations = TritonOperations(self, torch.float32, [[self.one, self.two]])

    def forward(self, x: Tensor) -> Tensor:
        do = self.operations
        for layer in (self.two, self.one, self.layer):
            update = do.update(x, layer)
            x = update.value * self.layer.scale + x
        return x


def test_an_early_update_changes_nothing_but_what_is_complete() -> None:
    torch.manual_seed(0)
    network = Between().to(DEVICE)
    early = network.operations.flat
    seen: list[tuple[int, int, bool]] = []
    early.early_update = lambda start, end, shadows: seen.append((start, end, shadows))
    for parameters in ([network.layer.weight, network.layer.bias], [network.one.weight, network.one.bias]):
        early.update_early(parameters)
    assert seen == []
    early.update_early([network.one.weight, network.two.weight])
    early.update_early([network.one.weight], shadows=False)
    (start, middle), (_, end) = early.places[network.one.weight], early.places[network.two.weight]
    assert seen == [(start, end, True), (start, middle, False)]
    early.update_early([network.layer.bias])  # 16 numbers, and the gap behind them
    assert seen[-1] == (early.places[network.layer.bias][0], early.places[network.layer.bias][0] + 64, True)


def test_frozen_weights_and_weights_of_two_uses_are_refused() -> None:
    for spoil, words in (("freeze", "frozen"), ("penalty", "fused operations and by others")):
        network = Optional().to(DEVICE)
        network.operations = TritonOperations(network, torch.float32)
        loss = network(torch.randn(4, 16, device=DEVICE, requires_grad=True), 1).sum()
        if spoil == "freeze":
            network.sometimes.weight.requires_grad_(False)
        else:
            loss = loss + network.always.weight.square().sum()
        loss.backward()
        with pytest.raises(ValueError, match=words):
            network.operations.join()


def test_a_copy_of_a_network_computes_as_the_textbook_does() -> None:
    """The memory of its form would not be that of its weights: what it trains would not be what it keeps."""
    plain, fused = twins("gpt", (6,), 2, torch.float32)
    other, given = copy.deepcopy(fused), inputs("gpt", (6,), 2)
    assert other.fused is None and fused.fused is not None
    assert torch.equal(other(*given), plain(*given))


@pytest.mark.parametrize(("channels", "patch"), [(3, 1), (1, 2)])
def test_one_image_is_computed_as_several_are(channels: int, patch: int) -> None:
    """Patches of one image are a view of it, whose entries lie apart."""
    plain, fused = twins("dit", (channels, 4, 4), 2, torch.float32, patch=patch)
    loose = 100 if DEVICE == "cuda" else 1
    for n in (1, 2):
        given = inputs("dit", (channels, 4, 4), 2, n)
        for network in (plain, fused):
            network.zero_grad(set_to_none=True)
        (out, slopes), (out_fused, slopes_fused) = gradients(plain, given), gradients(fused, given)
        assert difference(out_fused, out) < 1e-5 * loose
        assert all(difference(slopes_fused[name], slope) < 1e-4 * loose for name, slope in slopes.items())


def test_tokens_may_lie_apart_in_memory() -> None:
    _, fused = twins("gpt", (6,), 2, torch.float32)
    apart = torch.randint(2, (12, 1), generator=torch.Generator().manual_seed(0)).T[:, ::2].to(DEVICE)
    assert not apart.flatten().is_contiguous()
    positions, table = fused.position_embedding.weight[:6], fused.token_embedding
    found = fused.fused.operations.look_up(apart, table, positions)
    assert difference(found, table(apart) + positions) < 1e-6


@pytest.mark.parametrize(("name", "shape"), [("dit", (3, 4, 4)), ("dit", (1, 3, 4))])
def test_the_gradient_of_the_input_is_that_of_the_plain_network(name: str, shape: tuple[int, ...]) -> None:
    plain, fused = twins(name, shape, 2, torch.float32)
    found = []
    for network in (plain, fused):
        x, label = inputs(name, shape, 2)
        (network(x.requires_grad_(), label) * torch.arange(x.numel(), device=DEVICE).view(x.shape)).sum().backward()
        finish_gradients(network)
        found.append(x.grad)
    assert difference(found[1], found[0]) < (1e-3 if DEVICE == "cuda" else 1e-5)


@torch.no_grad()
def test_a_layer_has_its_bias_where_no_gradient_follows() -> None:
    layer, x = nn.Linear(16, 24).to(DEVICE), torch.randn(3, 16, device=DEVICE)
    nn.init.normal_(layer.bias)
    operations = TritonOperations(layer, torch.float32)
    assert difference(operations.linear(x, layer), layer(x)) < (1e-3 if DEVICE == "cuda" else 1e-6)


def test_a_backward_pass_that_fails_does_not_spoil_the_next_one() -> None:
    plain, network = twins("dit", (1, 2, 3), 2, torch.float32)
    optimizer, given = FlatAdam(network.fused.flat, lr=0.0), inputs("dit", (1, 2, 3), 2)

    def fail(gradient: Tensor) -> None:
        raise KeyError

    tokens: list[Tensor] = []
    embed = network.fused.operations.embed
    network.fused.operations.embed = lambda *more: (tokens.append(embed(*more)), tokens[-1])[1]
    out = network(*given)
    tokens[0].register_hook(fail)  # after all blocks
    with pytest.raises(KeyError), optimizer.during_backward():
        out.sum().backward()
    optimizer.step()
    network.zero_grad(set_to_none=True)
    (_, slopes), (_, slopes_fused) = gradients(plain, given), gradients(network, given)
    assert all(difference(slopes_fused[name], slope) < 1e-2 for name, slope in slopes.items())


def test_what_a_failed_backward_pass_left_is_not_updated_in_the_next_one() -> None:
    """Gradients that are complete in a pass that fails are those of its weights, not of the next one's."""
    _, network = twins("gpt", (6,), 2, HALF, depth=2)
    optimizer = FlatAdam(network.fused.flat, lr=1e-2)
    flat, operations = network.fused.flat, network.fused.operations
    first = network.blocks[1].expand
    with pytest.raises(KeyError), optimizer.during_backward():
        operations.on_side_stream(lambda: None, flat.values, ready=[first.weight, first.bias])
        raise KeyError
    before = flat.values.clone()
    optimizer.updated.append((0, 64))
    with optimizer.during_backward():
        assert optimizer.updated == []
        operations.join()
    assert torch.equal(flat.values, before) and optimizer.updated == []
    operations.on_side_stream(lambda: None, flat.values, ready=[first.weight, first.bias])  # somebody's own pass
    with optimizer.during_backward():
        operations.join()
    assert torch.equal(flat.values, before)


def test_a_training_step_updates_early_and_all_weights_and_biases_of_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    _, network = twins("gpt", (6,), 2, HALF, depth=2)
    optimizer = FlatAdam(network.fused.flat, lr=1e-2)
    flat = network.fused.flat
    early: list[tuple[int, int]] = []
    step = optimizer.step
    monkeypatch.setattr(optimizer, "step", lambda: (early.extend(optimizer.updated), step()))
    with updates_early(optimizer):
        gradients(network, inputs("gpt", (6,), 2))
    optimizer.step()
    layers = [layer for block in network.blocks for layer in block.modules() if isinstance(layer, nn.Linear)]
    for layer in layers:
        for parameter in (layer.weight, layer.bias):
            start, end = flat.places[parameter]
            assert any(begin <= start and end <= stop for begin, stop in early)


class Optional(Network):
    """A layer that is not used in every step, and may be used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.always, self.sometimes = nn.Linear(16, 16), nn.Linear(16, 16)
        self.operations = TritonOperations(self, torch.float32)

    def forward(self, x: Tensor, times: int) -> Tensor:
        x = self.operations.update(x, self.always).value
        for _ in range(times):
            x = self.operations.update(x, self.sometimes).value
        return x


def test_a_weight_without_a_gradient_has_none_of_the_step_before() -> None:
    network = Optional().to(DEVICE)
    network.operations = TritonOperations(network, torch.float32)
    x = torch.randn(2, 3, 16, device=DEVICE, requires_grad=True)
    for times in (1, 0):
        network.zero_grad(set_to_none=True)
        network(x, times).sum().backward()
        network.operations.join()
        assert bool(network.sometimes.weight.grad.any()) == (times == 1)


def test_a_weight_used_twice_is_refused() -> None:
    network = Optional().to(DEVICE)
    network.operations = TritonOperations(network, torch.float32)
    x = torch.randn(2, 3, 16, device=DEVICE, requires_grad=True)
    with pytest.raises(AssertionError, match="used twice"):
        network(x, 2).sum().backward()


def test_which_form_a_network_gets() -> None:
    gpt = models.create("gpt", width=16, depth=1, heads=2).build((4,), 2)
    unet = models.create("unet1d", width=16).build((4,), 2)
    adam = partial(make_form, optimizer="adam")
    assert isinstance(adam(gpt, "float32", on_gpu=False, fused=True), CpuForm)
    assert adam(gpt, "float32", on_gpu=False, fused=False) is None
    assert isinstance(adam(unet, "float32", on_gpu=False, fused=True), LinearForm) == prefers_onednn()
    assert adam(gpt, "float32", on_gpu=True, fused=True) is None
    assert adam(gpt, "tf32", on_gpu=True, fused=True) is None
    assert isinstance(adam(gpt, "bfloat16", on_gpu=False, fused=True), MixedForm)
    assert isinstance(adam(gpt, "bfloat16", on_gpu=True, fused=False), MixedForm)
    assert isinstance(adam(gpt, "bfloat16", on_gpu=True, fused=True), TritonForm)
    assert isinstance(adam(unet, "bfloat16", on_gpu=True, fused=True), MixedForm)  # nobody fused it


def test_a_fused_network_with_rates_of_its_own_for_the_optimizer_gets_the_mixed_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fused optimizers have one rate for all parameters."""

    class Rated(GPT):
        def learning_rates(self, optimizer: str) -> Mapping[str, float]:
            return {"head.weight": 0.5} if optimizer == "sgd" else {}

    monkeypatch.setitem(FUSIONS, Rated, fusions()[GPT])
    for optimizer, form in {"adam": TritonForm, "adamw": TritonForm, "sgd": MixedForm}.items():
        network = models.create("gpt", width=16, depth=1, heads=2).build((4,), 2)
        network.__class__ = Rated
        chosen = {"device": "cuda", "precision": "bfloat16", "kernels": "fused", "optimizer": optimizer}
        use_kernels(network, EDM(), build(TrainingSettings, {"steps": 1, **chosen}))
        assert isinstance(network.fused, form)


def test_a_form_gets_inputs_by_position_and_by_name() -> None:
    network = randomised(models.create("gpt", width=16, depth=1, heads=2), (4,), 2).to(DEVICE)
    tokens = torch.zeros(2, 4, dtype=torch.int64, device=DEVICE)
    for form in (None, MixedForm(), TritonForm(network, HALF)):
        network.fused = form
        with torch.no_grad():
            assert torch.equal(network(tokens=tokens, cache=None), network(tokens))


def test_every_fused_forward_is_held_against_its_textbook() -> None:
    """A class that registers a fused forward pass must be among the cases above."""
    held = {
        type(models.create(name, width=48, depth=1, heads=3).build(shape, symbols)) for name, shape, symbols in CASES
    }
    assert set(fusions()) == held


def test_a_class_has_one_fused_forward_and_its_subclasses_none() -> None:
    gpt = next(iter(fusions()))
    with pytest.raises(ValueError, match="already has a fused forward"):
        fused_forward(gpt)(lambda network, operations: None)

    class Other(gpt): ...

    assert Other not in fusions()
