"""Losses of samples in Triton against torch's in float64, and a step with them against the textbook's."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from twoclocks import objectives
from twoclocks.objectives import EDM
from twoclocks.objectives.autoregressive import Autoregressive
from twoclocks.objectives.base import Objective
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.training.masked_loss import MaskedLoss
from twoclocks.training.order import RandomOrder
from twoclocks.training.step import PlainStep, TrainingLoss

pytest.importorskip("triton")
from twoclocks.kernels.fused_objectives import FUSED, fused_objective
from twoclocks.kernels.losses import MOST_SYMBOLS, mean_cross_entropy, mean_squared_error, takes_images, takes_tokens
from twoclocks.kernels.triton_operations import TritonForm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(1,), (1, 1, 3), (1, 17, 19), (3, 6, 6), (3, 30, 40)]  # the last one is more than a program holds at a time
TOLERANCE = 1e-5 if DEVICE == "cuda" else 2e-6  # a GPU's exp is right to fewer digits
TEXTS = [(1, 2), (37, 2), (130, 3), (37, 5), (1, 40), (37, 40), (130, 300), (5, 1), (2, 8193)]  # length and symbols
Loss = Callable[[Tensor, Tensor], Tensor]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def tokens(n: int, length: int, symbols: int) -> Tensor:
    found = torch.randint(symbols, (n, length), generator=torch.Generator().manual_seed(3))
    found[0, 0], found[-1, -1] = symbols - 1, 0
    return found.to(DEVICE)


def exact_squared_error(out: Tensor, target: Tensor) -> Tensor:
    return functional.mse_loss(out, target.double(), reduction="none").flatten(1).mean(dim=1)


def exact_cross_entropy(logits: Tensor, clean: Tensor) -> Tensor:
    return functional.cross_entropy(logits.transpose(1, 2), clean, reduction="none").mean(dim=1)


def slopes(n: int) -> list[Tensor]:
    """Gradients of losses: one number for all, every second number of some, others; numbers beside them are wrong."""
    memory = torch.tensor([0.7, *[9.0] * (2 * n)], device=DEVICE)
    apart = torch.full((2 * n,), 9.0, device=DEVICE)
    apart[::2] = torch.linspace(-1, 2, n, device=DEVICE)
    return [memory[:1].expand(n), apart[::2], torch.linspace(3, -0.5, n, device=DEVICE)]


def compare(fused: Loss, exact: Loss, out: Tensor, target: Tensor) -> None:
    """Values, and gradients for several weights of the samples."""
    mine, other = out.clone().requires_grad_(), out.double().requires_grad_()
    loss, true = fused(mine, target), exact(other, target)
    assert loss.dtype == torch.float32 and loss.shape == (len(out),)
    assert torch.allclose(loss.double(), true, rtol=TOLERANCE, atol=TOLERANCE)
    for slope in slopes(len(out)):
        mine.grad = other.grad = None
        loss.backward(slope, retain_graph=True)
        true.backward(slope.double(), retain_graph=True)
        assert mine.grad is not None and other.grad is not None
        assert torch.allclose(mine.grad.double(), other.grad, rtol=1e-4, atol=TOLERANCE * float(other.grad.abs().max()))
    mine.grad = other.grad = None
    loss.mean().backward()
    true.mean().backward()
    assert torch.allclose(mine.grad.double(), other.grad, rtol=1e-4, atol=TOLERANCE * float(other.grad.abs().max()))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_squared_errors_and_their_gradients_are_those_of_float64(shape: tuple[int, ...]) -> None:
    out, target = normal(4, *shape), normal(4, *shape, seed=1)
    assert takes_images(out, target)
    compare(mean_squared_error, exact_squared_error, out, target)


@pytest.mark.parametrize(("length", "symbols"), TEXTS)
def test_cross_entropies_and_their_gradients_are_those_of_float64(length: int, symbols: int) -> None:
    logits, clean = 3 * normal(4, length, symbols), tokens(4, length, symbols)
    assert takes_tokens(logits, clean)
    compare(mean_cross_entropy, exact_cross_entropy, logits, clean)


@pytest.mark.parametrize("symbols", [2, 5, 40])
def test_extreme_logits_neither_overflow_nor_vanish(symbols: int) -> None:
    logits, clean = 1e4 * normal(3, 7, symbols).sign(), tokens(3, 7, symbols)
    logits[1] += 5e4
    logits[2] -= 5e4
    compare(mean_cross_entropy, exact_cross_entropy, logits, clean)
    assert float(mean_cross_entropy(logits, clean).max()) > 1e3


def test_outputs_that_lie_apart_have_their_gradients_too() -> None:
    """Channels last, as the patches of a network leave them."""
    out, target = normal(3, 5, 4, 2).permute(0, 3, 1, 2), normal(3, 4, 5, 2, seed=1).permute(0, 3, 2, 1)
    compare(mean_squared_error, exact_squared_error, out, target)
    compare(mean_cross_entropy, exact_cross_entropy, normal(3, 5, 7).transpose(1, 2), tokens(7, 3, 5).T)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("own", [True, False])
def test_what_is_not_finite_is_what_it_is_in_torch(number: float, own: bool) -> None:
    """In the logit of the token itself and in another one."""
    clean = tokens(3, 5, 4)
    logits = normal(3, 5, 4)
    logits[1, 2, (int(clean[1, 2]) + (0 if own else 1)) % 4] = number
    found: list[tuple[Tensor, Tensor]] = []
    for given, loss in ((logits, mean_cross_entropy), (logits.double(), exact_cross_entropy)):
        leaf = given.clone().requires_grad_()
        losses = loss(leaf, clean)
        losses.sum().backward()
        assert leaf.grad is not None
        found.append((losses.detach().double(), leaf.grad.double()))
    for mine, other in zip(*found, strict=True):
        assert torch.allclose(mine, other, atol=TOLERANCE, equal_nan=True)
    out, target = normal(3, 1, 4, 5), normal(3, 1, 4, 5, seed=1)
    out[1, 0, 2, 3] = number
    error = mean_squared_error(out, target).double()
    assert torch.allclose(error, exact_squared_error(out.double(), target), atol=TOLERANCE, equal_nan=True)


@pytest.mark.parametrize("token", [-1, 3, -100, 2**40])
def test_a_token_that_is_no_symbol_is_nan(token: int) -> None:
    """Torch would stop the program. The other samples stay what they are."""
    logits, clean = normal(3, 5, 3).requires_grad_(), tokens(3, 5, 3)
    whole = mean_cross_entropy(logits, clean)
    clean = clean.clone()
    clean[1, 4] = token
    found = mean_cross_entropy(logits, clean)
    found.sum().backward()
    assert found.isnan().tolist() == [False, True, False] and torch.equal(found[::2], whole[::2])
    assert logits.grad is not None
    wrong = logits.grad.isnan().any(dim=2)
    assert wrong.nonzero().tolist() == [[1, 4]]


def test_gradients_are_written_in_their_place_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    memories: list[Tensor] = []

    def guarded(like: Tensor) -> Tensor:
        memories.append(torch.full((like.numel() + 5000,), 7.0, device=DEVICE))
        return memories[-1][2000 : 2000 + like.numel()].view(like.shape)

    for loss, out, target in (
        (mean_squared_error, normal(3, 17), normal(3, 17, seed=1)),
        (mean_cross_entropy, normal(3, 5, 7), tokens(3, 5, 7)),
    ):
        losses = loss(out.requires_grad_(), target)
        with monkeypatch.context() as patch:
            patch.setattr(torch, "empty_like", guarded)
            losses.backward(torch.ones(3, device=DEVICE))
        memory = memories[-1]
        assert (memory[:2000] == 7).all() and (memory[2000 + out.numel() :] == 7).all()
        assert (memory[2000 : 2000 + out.numel()] != 7).all()


def test_what_the_kernels_do_not_take() -> None:
    out, clean = normal(2, 1, 3, 3), tokens(2, 4, 3)
    assert takes_images(out, out) and takes_tokens(normal(2, 4, 3), clean)
    for wrong in (out.double(), out.bfloat16(), out[:, 0], out[:0]):
        assert not takes_images(wrong, out)
    assert not takes_images(out[:0], out[:0]) and not takes_images(out.double(), out.double())
    assert not takes_images(normal(2), normal(2)) and not takes_images(out.to("meta"), out.to("meta"))
    for logits in (normal(2, 4, 3).half(), normal(2, 3, 3), normal(0, 4, 3), normal(2, 4, 1).expand(2, 4, 16_385)):
        assert not takes_tokens(logits, clean)
    assert not takes_tokens(normal(2, 4, 3), clean.int()) and not takes_tokens(normal(2, 4, 3, 3), tokens(2, 12, 3))
    assert takes_tokens(normal(1, 1, MOST_SYMBOLS), tokens(1, 1, MOST_SYMBOLS))


def drawn_rows(name: str) -> tuple[Objective, Tensor, tuple[Tensor, ...], Tensor]:
    """An objective, clean rows, what is drawn for them, and the output of a network."""
    objective = objectives.create(name)
    clean = tokens(3, 7, 5) if name == "autoregressive" else normal(3, 2, 3, 5, seed=4)
    generator = torch.Generator(DEVICE).manual_seed(0)
    out = normal(3, 7, 5, seed=5) if name == "autoregressive" else normal(3, 2, 3, 5, seed=5)
    return objective, clean, objective.draw(clean, generator), out


@pytest.mark.parametrize("name", ["edm", "autoregressive"])
def test_a_fused_objective_has_the_settings_and_the_loss_of_its_textbook(name: str) -> None:
    objective, clean, drawn, out = drawn_rows(name)
    fused = fused_objective(objective)
    assert type(fused) is FUSED[type(objective)] and vars(fused) == vars(objective)
    for form in (out, out.transpose(1, 2).contiguous().transpose(1, 2), out.half(), out.double()):
        leaf = form.detach().requires_grad_()
        calls: list[tuple[Tensor, ...]] = []

        def network(*given: Tensor, out: Tensor = leaf, calls: list[Any] = calls) -> Tensor:
            calls.append(given)
            return out

        found, true = (one.loss_given(network, clean, *drawn) for one in (fused, objective))
        assert found.dtype == true.dtype and torch.allclose(found, true, rtol=1e-5, atol=1e-6)
        by_kernels = type(found.grad_fn).__name__ in ("MeanSquaredErrorBackward", "MeanCrossEntropyBackward")
        assert by_kernels == (form.dtype == torch.float32)
        assert len(calls) == 2  # once by each: no output is made again
        assert all(torch.allclose(one, two, rtol=1e-5, atol=1e-6) for one, two in zip(*calls, strict=True))
        with torch.no_grad():
            assert torch.equal(fused.loss_given(network, clean, *drawn), found)


def test_only_the_classes_themselves_have_a_fused_form() -> None:
    class Shifted(EDM):
        """One's own."""

    class Weighted(Autoregressive):
        """One's own."""

    for objective in (Shifted(), Weighted(), objectives.create("masked"), *map(fused_objective, (EDM(),))):
        assert fused_objective(objective) is objective


@cache
def small(name: str) -> Experiment:
    """A small run whose network has Triton's form."""
    preset = {"dit": "demo", "gpt": "demo-gpt"}[name]
    change = {"model": {"width": 16, "depth": 1, "heads": 1}, "training.kernels": "plain", "training.threads": 1}
    short = {"rule.length": 8, "rule.group": 4, "data.n": 8, "clocks.memory_threshold": 0.3}
    made = Experiment(load_settings(preset, {**change, **short, "training.device": DEVICE}))
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in made.network.parameters():  # a fresh DiT returns zeros whatever it reads
            parameter.normal_(std=0.3)
    made.network.fused = TritonForm(made.network, torch.float32)
    return made


def batch_gradient(made: Experiment, loss: TrainingLoss, trim: float) -> tuple[Tensor, Tensor]:
    """The loss of a batch, and the gradients of all weights."""
    order = RandomOrder(len(made.train_rows), 4, made.loop.generator)
    parts = made.network, made.optimizer, loss, made.shown(), order, made.loop.generator, made.loop.loss_sum
    step = PlainStep(*parts, trim=trim)
    made.loop.generator.manual_seed(5)
    found = step.backward(made.encode(made.train_rows)[:4])
    return found, made.network.fused.flat.gradients.clone()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dit", "gpt"])
@pytest.mark.parametrize(("masked", "trim"), [(False, 0.0), (False, 0.25), (True, 0.25)])
def test_a_step_with_a_fused_objective_is_the_textbooks(name: str, masked: bool, trim: float) -> None:
    """Also where samples count differently: with the lowest losses left out, and with an auxiliary loss."""
    made = small(name)
    found = []
    for objective in (fused_objective(made.objective), made.objective):
        loss: TrainingLoss = MaskedLoss(objective, weight=0.5, share=0.3) if masked else objective
        found.append(batch_gradient(made, loss, trim))
    (loss_fused, gradient), (loss_plain, true) = found
    assert type(fused_objective(made.objective)) is not type(made.objective)
    loose = 1e-3 if DEVICE == "cuda" else 1e-5  # a GPU's matrix units round to TF32
    assert torch.allclose(loss_fused, loss_plain, rtol=loose) and float(true.norm()) > 0
    assert float((gradient - true).norm()) < loose * float(true.norm())
