"""Fused forward passes against the textbook's: outputs and every gradient, on Triton's interpreter or on the GPU."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks import models
from twoclocks.kernels import fusions
from twoclocks.models import Network
from twoclocks.objectives import EDM
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.testing.contracts import randomised
from twoclocks.training.loop import TrainingSettings
from twoclocks.training.optimizer import make_optimizer
from twoclocks.training.order import RandomOrder
from twoclocks.training.step import PlainStep, finish_gradients, undone

pytest.importorskip("triton")
from fused_networks import DEVICE, HALF, difference, gradients, inputs, twins

from twoclocks.kernels import corruption, tma
from twoclocks.kernels.adam import FlatAdam
from twoclocks.kernels.flat_descent import FlatDescent
from twoclocks.kernels.fused_objectives import FusedEDM, fused_objective
from twoclocks.kernels.operations import Update
from twoclocks.kernels.triton_operations import TritonForm, TritonOperations

pytestmark = pytest.mark.slow  # Triton's interpreter takes about a second per network
EXACTLY = pytest.mark.skipif(DEVICE == "cuda", reason="compares last digits of float32, which a GPU does not promise")
ODD = [("dit", (1, 2, 3), 2, 20, 5), ("gpt", (130,), 2, 16, 1), ("gpt", (1,), 2, 16, 1)]  # beyond the kernels: torch
CASES = [
    ("dit", (1, 3, 4), 2),
    ("dit", (3, 2, 5), 2),
    ("gpt", (10,), 2),
    ("gpt", (17,), 5),
    ("gpt", (5,), 40),
    ("gpt_full", (10,), 3),
]


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


def test_every_fused_forward_is_held_against_its_textbook() -> None:
    """A class that registers a fused forward pass must be among the cases above."""
    held = {
        type(models.create(name, width=48, depth=1, heads=3).build(shape, symbols)) for name, shape, symbols in CASES
    }
    assert set(fusions()) == held
