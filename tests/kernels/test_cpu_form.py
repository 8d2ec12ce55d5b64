"""The CPU's fused forward passes against the textbook's: outputs, every gradient, samples."""

from __future__ import annotations

import copy
import platform
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from twoclocks import models
from twoclocks.kernels import cpu_functions, cpu_operations, fusions
from twoclocks.kernels.cpu_functions import has_onednn
from twoclocks.kernels.cpu_operations import CpuForm
from twoclocks.kernels.linear_layers import NETWORKS, LinearForm
from twoclocks.kernels.registry import cpu_form, make_form
from twoclocks.models import Network
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.testing.contracts import randomised
from twoclocks.training.step import finish_gradients

with_onednn = pytest.mark.skipif(platform.machine() != "x86_64" and not has_onednn(), reason="torch without oneDNN")
pytestmark = with_onednn  # on x86 it must be there: what is wrong with it must not look like its absence
Case = tuple[str, tuple[int, ...], int, dict[str, Any]]
CASES: list[Case] = [
    ("dit", (1, 3, 4), 2, {}),
    ("dit", (3, 2, 5), 2, {"depth": 1}),
    ("dit", (1, 2, 3), 2, {"width": 20, "heads": 5}),
    ("dit", (3, 4, 6), 2, {"patch": 2}),
    ("dit", (1, 12, 11), 2, {"depth": 1}),  # more tokens than those whose attention is stored
    ("gpt", (10,), 2, {}),
    ("gpt", (17,), 5, {"heads": 1}),
    ("gpt", (5,), 40, {}),
    ("gpt", (1,), 2, {}),
    ("gpt", (130,), 3, {"depth": 1}),
    ("gpt_full", (10,), 3, {}),
    ("gpt_full", (129,), 3, {"depth": 1}),
    ("dit", (1, 3, 4), 2, {"registers": 2, "dropout": 0.3}),
    ("gpt", (10,), 2, {"registers": 1, "dropout": 0.3}),
    ("gpt_full", (10,), 3, {"registers": 3, "dropout": 0.3}),
]
LINEAR: list[Case] = [
    ("unet1d", (8,), 3, {"width": 16}),
    ("unet1d", (9,), 4, {"width": 12, "branching": 3, "told_noise": True}),
    ("unet1d", (8,), 3, {"width": 16, "layout": "normalised"}),
    ("unet1d", (4,), 2, {"width": 16, "layout": "normalised", "told_noise": True}),
]
NAMES = [f"{name} {shape} {more}" for name, shape, _, more in [*CASES, *LINEAR]]


@pytest.fixture(autouse=True, params=["MKL", "oneDNN"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test with the products of both libraries: which one is taken depends on the processor."""
    monkeypatch.setattr(cpu_functions, "prefers_onednn", lambda: request.param == "oneDNN")


def twins(case: Case) -> tuple[Network, Network]:
    name, shape, symbols, more = case
    size = {} if name == "unet1d" else {"width": 32, "depth": 2, "heads": 2}
    plain = randomised(models.create(name, **{**size, **more}), shape, symbols)
    fused = copy.deepcopy(plain)
    fused.fused = LinearForm() if name == "unet1d" else cpu_form(fused)
    assert isinstance(fused.fused, LinearForm if name == "unet1d" else CpuForm)
    return plain, fused


def inputs(case: Case, n: int = 3) -> tuple[Tensor, ...]:
    name, shape, symbols, _ = case
    generator = torch.Generator().manual_seed(1)
    if name == "dit":
        return torch.randn((n, *shape), generator=generator), torch.randn(n, generator=generator)
    tokens = torch.randint(symbols, (n, *shape), generator=generator)
    tokens[:, 0] = -1
    return (tokens,) if name == "gpt" else (tokens, torch.linspace(0.1, 0.9, n))


def gradients(network: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
    out = network(*given)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    (out * weights).sum().backward()
    finish_gradients(network)
    return out.detach(), {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


def difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("case", [*CASES, *LINEAR], ids=NAMES)
def test_the_form_has_the_outputs_and_gradients_of_the_textbook(case: Case) -> None:
    plain, fused = twins(case)
    given = inputs(case)
    (out, slopes), (out_fused, slopes_fused) = gradients(plain, given), gradients(fused, given)
    assert out_fused.shape == out.shape and difference(out_fused, out) < 1e-5
    assert set(slopes) == set(slopes_fused)
    for key, slope in slopes.items():
        assert slopes_fused[key].shape == slope.shape and difference(slopes_fused[key], slope) < 1e-4, key


@pytest.mark.parametrize("case", [*CASES, *LINEAR], ids=NAMES)
def test_outputs_without_gradients_are_those_of_the_textbook(case: Case) -> None:
    """Evaluations take other operations: the activation is a part of the product there."""
    plain, fused = twins(case)
    with torch.no_grad():
        assert difference(fused(*inputs(case)), plain(*inputs(case))) < 1e-5


@pytest.mark.parametrize("registers", [0, 2])
def test_tokens_one_by_one_have_the_outputs_of_all_at_once(registers: int) -> None:
    """With registers the first call puts them into the cache, and positions begin behind them; nothing is dropped."""
    case: Case = ("gpt", (7,), 3, {"registers": registers, "dropout": 0.3})
    plain, fused = twins(case)
    (tokens,) = inputs(case)
    cache = fused.new_cache()
    with torch.no_grad():
        parts = [fused(tokens[:, :3], cache), *(fused(tokens[:, i : i + 1], cache) for i in range(3, 7))]
        assert difference(torch.cat(parts, dim=1), plain.eval()(tokens)) < 1e-5


def test_every_fused_forward_is_held_against_its_textbook_here_too() -> None:
    assert set(fusions()) == {type(twins(case)[0]) for case in CASES}
    assert set(NETWORKS) == {type(twins(case)[0]) for case in LINEAR}


def test_linear_layers_are_computed_by_onednn_only_inside_of_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    _, fused = twins(LINEAR[0])
    calls: list[int] = []
    real = cpu_functions.product
    monkeypatch.setattr(cpu_functions, "product", lambda *given: calls.append(1) or real(*given))
    with torch.no_grad():
        fused(*inputs(LINEAR[0]))
        layers = sum(isinstance(module, nn.Linear) for module in fused.modules())
        assert len(calls) == layers > 3
        fused.forward(*inputs(LINEAR[0]))
    assert len(calls) == layers


@pytest.mark.parametrize("repeated", [False, True])
def test_samples_that_share_a_noise_level_have_its_whole_gradient(repeated: bool) -> None:
    """A label that was expanded is computed once; its vectors serve all samples."""
    case = CASES[0]
    plain, fused = twins(case)
    (x, label), found = inputs(case, 4), []
    shared = label[:1].repeat(4) if repeated else label[:1].expand(4)
    found = [gradients(network, (x, shared)) for network in (plain, fused)]
    for key, slope in found[0][1].items():
        assert difference(found[1][1][key], slope) < 1e-4, key


def test_gradients_of_inputs_are_those_of_the_textbook() -> None:
    plain, fused = twins(CASES[0])
    slopes = []
    for network in (plain, fused):
        x, label = (part.clone().requires_grad_() for part in inputs(CASES[0]))
        network(x, label).square().sum().backward()
        slopes.append((x.grad, label.grad))
    for mine, theirs in zip(*slopes, strict=True):
        assert mine is not None and theirs is not None and difference(mine, theirs) < 1e-4


@pytest.mark.parametrize("case", [CASES[0], CASES[5]], ids=["dit", "gpt"])
def test_second_derivatives_are_refused(case: Case) -> None:
    """They would lack what the operations do not record."""
    _, fused = twins(case)
    with pytest.raises(RuntimeError, match=r"no second derivatives; use training\.kernels plain"):
        torch.autograd.grad(fused(*inputs(case)).sum(), list(fused.parameters()), create_graph=True, allow_unused=True)


def test_gradients_add_up_over_two_backward_passes() -> None:
    case = CASES[0]
    plain, fused = twins(case)
    for network in (plain, fused):
        for _ in range(2):
            network(*inputs(case)).square().sum().backward()
    for mine, theirs in zip(fused.parameters(), plain.parameters(), strict=True):
        assert mine.grad is not None and theirs.grad is not None and difference(mine.grad, theirs.grad) < 1e-4


@pytest.mark.parametrize("preset", ["demo", "demo-gpt", "p2-md4-rhm", "p2-rhm-small"])
def test_runs_have_the_losses_and_samples_of_the_textbook(preset: str) -> None:
    """Forty updates, then the same noise: whatever a run does with the form, rounding is all that differs."""
    change: dict[str, Any] = {"training.threads": 1, "training.batch": 8}
    if preset == "p2-md4-rhm":
        change |= {"model.width": 32, "model.depth": 1, "model.heads": 2, "objective.sampler_levels": 4}
        change |= {"training.device": "cpu", "training.precision": "float32"}
    fused, plain = (Experiment(load_settings(preset, change), textbook=textbook) for textbook in (False, True))
    assert plain.network.fused is None
    for one in (fused, plain):
        step = one.make_step()
        for number in range(1, 41):
            step(number)
        one.network.eval()
    assert float(fused.loop.loss_sum) == pytest.approx(float(plain.loop.loss_sum), rel=1e-4)
    plain.load_weights(fused.weights())
    with torch.no_grad():
        agree = (fused.sample().float() - plain.sample().float()).abs() < 1e-3
    assert float(agree.float().mean()) > 0.999


def test_a_form_is_given_to_transformers_in_float32_alone() -> None:
    def form(name: str, precision: str = "float32", fused: bool = True, **more: Any) -> object:
        shape: tuple[int, ...] = (1, 2, 2) if name == "dit" else (4,)
        network = models.create(name, width=16, **more).build(shape, 2)
        return make_form(network, precision, on_gpu=False, fused=fused, optimizer="adam")  # type: ignore[arg-type]

    assert isinstance(form("dit", depth=1, heads=2), CpuForm) and isinstance(form("gpt", depth=1, heads=2), CpuForm)
    gpt = models.create("gpt", width=16, depth=1, heads=2).build((4,), 2)
    assert make_form(gpt, "float32", on_gpu=True, fused=True, optimizer="adam") is None
    assert isinstance(form("unet1d"), LinearForm) == cpu_functions.prefers_onednn()
    assert form("unet1d", fused=False) is None
    assert isinstance(form("gpt", depth=1, heads=2, registers=1, dropout=0.1), CpuForm)
    assert form("mlp") is None and form("dit", depth=1, heads=2, fused=False) is None
    assert not isinstance(form("gpt", "bfloat16", depth=1, heads=2), CpuForm)


@pytest.mark.parametrize("change", ["missing", "wrong", "wrong activation"])
def test_a_build_of_torch_without_the_product_is_noticed(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> object:
        raise AttributeError("no such operation")

    def wrong() -> object:
        return lambda x, weight, bias, *activation: x @ weight.t()

    def wrong_activation() -> object:
        return lambda x, weight, bias, *activation: nn.functional.linear(x, weight, bias)

    made = {"missing": missing, "wrong": wrong, "wrong activation": wrong_activation}
    monkeypatch.setattr(cpu_functions, "onednn_linear", made[change])
    has_onednn.cache_clear()
    try:
        assert not has_onednn()
    finally:
        has_onednn.cache_clear()


INPUTS = {
    "one number": torch.ones(1).expand(3, 2, 4),
    "one row": torch.arange(4.0).expand(3, 2, 4),
    "every other entry": torch.arange(48.0).view(3, 2, 8)[..., ::2],
    "permuted": torch.arange(24.0).view(4, 2, 3).permute(2, 1, 0),
    "a vector": torch.arange(4.0),
}


@pytest.mark.parametrize("name", INPUTS)
def test_products_read_memory_in_any_order(name: str) -> None:
    weight, bias = torch.linspace(-1, 1, 20).view(5, 4), torch.arange(5.0)
    x = INPUTS[name].clone(memory_format=torch.preserve_format) if name == "permuted" else INPUTS[name]
    for layout in (weight, weight.t().contiguous().t()):
        expected = nn.functional.linear(x, layout, bias)
        assert torch.allclose(cpu_functions.product(x, layout, bias), expected, atol=1e-4)
    inputs = [part.clone().requires_grad_() for part in (x, weight, bias)]
    ours, theirs = (
        torch.autograd.grad(linear(*inputs).sum(), inputs)
        for linear in (cpu_functions.Linear.apply, nn.functional.linear)
    )
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other, atol=1e-3)


def test_this_build_of_torch_has_the_product() -> None:
    assert has_onednn()


@pytest.mark.parametrize("case", [CASES[0], CASES[5]], ids=["dit", "gpt"])
def test_a_network_that_was_changed_is_computed_by_the_textbook(case: Case) -> None:
    given = inputs(case)
    plain, fused = twins(case)
    calls: list[str] = []
    hook = fused.blocks[0].register_forward_hook(lambda *seen: calls.append("hook"))  # type: ignore[index, operator]
    fused(*given)
    hook.remove()
    fused(*given)
    assert calls == ["hook"]

    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    for network in (plain, fused):
        network.blocks[0].expand.__class__ = Doubled  # type: ignore[index, union-attr]
    assert torch.equal(fused(*given), plain(*given))
    _, fused = twins(case)
    with torch.autocast("cpu", torch.bfloat16):
        assert fused(*given).dtype in (torch.float32, torch.bfloat16)
    doubled = [part.double() if part.is_floating_point() else part for part in given]
    assert fused.double()(*doubled).dtype == torch.float64


def test_masks_show_the_past_alone() -> None:
    mask = cpu_operations.hidden_positions(4, True)
    assert torch.equal(mask == 0, torch.ones(4, 4).tril().bool()) and bool((mask[mask != 0] == -torch.inf).all())
    assert torch.equal(cpu_operations.hidden_positions(3, False), torch.zeros(3, 3))


@pytest.mark.parametrize(
    ("family", "mkl", "onednn", "chosen"),
    [
        (26, True, True, True),
        (25, True, True, False),
        (0, True, True, False),
        (0, False, True, True),
        (26, True, False, False),
        (0, False, False, False),
    ],
)
def test_the_library_depends_on_the_processor_alone(
    family: int, mkl: bool, onednn: bool, chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # of the fixture
    monkeypatch.setattr(cpu_functions, "amd_family", lambda: family)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    monkeypatch.setattr(cpu_functions, "has_onednn", lambda: onednn)
    cpu_functions.prefers_onednn.cache_clear()
    try:
        assert cpu_functions.prefers_onednn() == chosen
    finally:
        cpu_functions.prefers_onednn.cache_clear()


def test_the_default_type_of_new_tensors_does_not_matter() -> None:
    """Vectors that the operations make themselves have the type of their inputs."""
    plain, fused = twins(("dit", (1, 2, 2), 2, {}))
    x, label = torch.randn(3, 1, 2, 2), torch.rand(3)
    cpu_functions.neutral_vectors.cache_clear()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.allclose(fused(x, label), plain(x, label), atol=1e-4)
    finally:
        torch.set_default_dtype(torch.float32)
