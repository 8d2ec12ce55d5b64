"""Steps from recordings are the steps of autograd, to the last bit, whatever happens to the network between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ClassVar

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from twoclocks import models, objectives
from twoclocks.kernels import cpu_functions
from twoclocks.models import MODELS
from twoclocks.objectives import OBJECTIVES
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.training.masked_loss import MaskedLoss
from twoclocks.training.recorded import CHECKS, MOST_KINDS, RecordedGradient, recordable, same
from twoclocks.training.step import PlainStep, finish_gradients

SMALL = {"model.width": 16, "model.depth": 1, "model.heads": 2, "training.batch": 7, "data.n": 16}
ON_CPU = {"training.device": "cpu", "training.precision": "float32"}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "dit": ("demo", SMALL),
    "gpt": ("demo-gpt", SMALL),
    "dropout": ("demo-gpt", {**SMALL, "model.dropout": 0.3}),
    "dropout of images": ("demo", {**SMALL, "model.dropout": 0.3, "model.registers": 2}),
    "masked loss": ("demo", {**SMALL, "training.masked_loss": 0.5}),
    "trimmed loss": ("demo-gpt", {**SMALL, "training.trim": 0.4}),
    "curriculum": ("demo", {**SMALL, "objective.shift_steps": 10, "objective.first_shift": 1.0}),
    "easier rows": ("demo", {**SMALL, "rule.group": 4, "data.easier_group": 2, "data.easier_steps": 3}),
    "augmentation": ("demo", {**SMALL, "data.augment": True}),
    "warm-up": ("demo", {**SMALL, "training.warm_up": 4, "training.average": 0.9}),
    "textbook": ("demo", {**SMALL, "training.kernels": "plain"}),
    "grammar": ("p2-rhm-small", {"training.batch": 7}),
    "masked tokens": ("p2-md4-rhm", {**SMALL, **ON_CPU, "training.batch": 4}),
    "images": ("p2-digits", {**ON_CPU, "training.batch": 4, "data.n": 16}),
    "authors' grammar": ("p2-rhm-l3-authors", {**ON_CPU, "model.width": 16, "training.batch": 7, "data.n": 64}),
    "one hidden layer": ("p2-kernel-small", {**ON_CPU, "model.width": 16, "training.batch": 4, "data.n": 16}),
    "images of Gaussian diffusion": ("images-small", {**ON_CPU, "training.batch": 4, "data.n": 16}),
}


def experiment(name: str, **training: Any) -> Experiment:
    preset, change = RUNS[name]
    more = {f"training.{key}": value for key, value in {"threads": 1, **training}.items()}
    return Experiment(load_settings(preset, {**change, **more}))


def weights(one: Experiment) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in one.network.parameters()])


def gradient_of(one: Experiment) -> tuple[Callable[[int], None], RecordedGradient]:
    step = one.make_step()
    assert type(step.update) is PlainStep and isinstance(step.update.gradient, RecordedGradient)
    return step, step.update.gradient


def counted(gradient: RecordedGradient, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the batches whose gradient autograd computes."""
    calls: list[int] = []
    compute = gradient.compute
    monkeypatch.setattr(gradient, "compute", lambda size, *given: (calls.append(size), compute(size, *given))[1])
    return calls


@pytest.mark.parametrize("name", RUNS)
def test_recorded_steps_are_those_of_autograd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded, eager = experiment(name), experiment(name, capture=False)
    (ours, gradient), theirs = gradient_of(recorded), eager.make_step()
    assert isinstance(theirs.update, PlainStep) and theirs.update.gradient is None
    calls, before = counted(gradient, monkeypatch), weights(recorded)
    for number in range(1, CHECKS + 6):
        ours(number)
        theirs(number)
        assert torch.equal(weights(recorded), weights(eager)), f"step {number}"
    assert gradient.objection == "" and len(calls) == 2 + CHECKS, "later steps repeat the recording alone"
    assert torch.equal(recorded.loop.loss_sum, eager.loop.loss_sum) and not torch.equal(weights(recorded), before)


def test_all_built_in_networks_and_objectives_are_recorded_above() -> None:
    """And nothing else is, unless its own class says so."""
    runs = [experiment(name) for name in RUNS]
    tried = {type(one.network) for one in runs} | {type(one.objective) for one in runs}
    built_in = {type(MODELS.get(name)().build(*MODELS.get(name).example)) for name in MODELS.names()}
    assert {one for one in built_in if vars(one).get("recordable")} <= tried
    own = [OBJECTIVES.get(name) for name in OBJECTIVES.names()]
    assert all(vars(one).get("recordable") is True for one in own)

    class Further(type(runs[0].network)):  # type: ignore[misc]
        pass

    network, objective = runs[0].network, runs[0].objective
    assert recordable(network, objective) and recordable(network, MaskedLoss(objective, 1.0, 0.5))
    network.__class__ = Further
    assert not recordable(network, objective)


class Counting(models.Network):
    """Its output depends on how often it was called, though it says that it does not.

    It counts inside of a list, which a recording cannot see.
    """

    recordable: ClassVar[bool] = True

    def __init__(self, calls_that_differ: range) -> None:
        super().__init__()
        self.layer, self.calls, self.range = nn.Linear(3, 3), [0], calls_that_differ

    def forward(self, x: Tensor) -> Tensor:
        self.calls[0] += 1
        out: Tensor = self.layer(x) * (2.0 if self.calls[0] in self.range else 1.0)
        return out


def loss(network: nn.Module) -> Callable[..., Tensor]:
    return lambda size, rows: network(rows).square().sum() / size


@pytest.mark.parametrize("first", range(3, 3 + CHECKS))
def test_a_network_that_is_not_the_same_every_time_is_found_out(first: int) -> None:
    """Its first call is not recorded, and the second is."""
    network = Counting(range(first, 100))
    gradient = RecordedGradient(network, loss(network))
    for _ in range(1 + CHECKS):
        gradient(4, torch.randn(4, 3))
    assert "another result" in gradient.objection
    rows = torch.randn(4, 3)
    found = gradient(4, rows)
    assert torch.equal(found, loss(network)(4, rows).detach())


def change_weights(network: Simple) -> None:
    """In place, as optimizers and checkpoints do: a recording reads them where they are."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.5)


def move_weights(network: Simple) -> None:
    for parameter in network.parameters():
        parameter.data = parameter.data * 0.5


def turn_weights(network: Simple) -> None:
    """In the memory in which they lay."""
    network.layer.weight.data = network.layer.weight.data.t()


def turn_buffer(network: Simple) -> None:
    network.mixed = network.mixed.t()


def add_hook(network: Simple) -> None:
    network.layer.register_forward_hook(lambda layer, given, out: 3 * out)


def add_hook_of_a_weight(network: Simple) -> None:
    network.layer.weight.register_hook(lambda slope: 3 * slope)


def add_hook_after_a_weight(network: Simple) -> None:
    def triple(weight: Tensor) -> None:
        assert weight.grad is not None
        weight.grad.mul_(3)

    network.layer.weight.register_post_accumulate_grad_hook(triple)


def add_hook_before(network: Simple) -> None:
    network.layer.register_forward_pre_hook(lambda layer, given: (3 * given[0],))


def add_hook_of_the_backward_pass(network: Simple) -> None:
    network.shape.register_full_backward_hook(lambda layer, found, given: (3 * found[0],))


def add_hook_before_the_backward_pass(network: Simple) -> None:
    network.layer.register_full_backward_pre_hook(lambda layer, given: (3 * given[0],))


def replace_layer(network: Simple) -> None:
    network.layer = nn.Linear(3, 3)


def replace_layer_twice(network: Simple) -> None:
    """The second one may get the number (``id``) that the first one had."""
    network.shape = nn.ReLU6()
    network.shape = nn.Sigmoid()


def share_layer(network: Simple) -> None:
    """All layers are those that there were."""
    network.last = network.spare


def replace_class(network: Simple) -> None:
    network.shape.__class__ = nn.Sigmoid


def replace_forward(network: Simple) -> None:
    """As libraries do that wrap layers."""
    network.shape.forward = lambda x: x.sin()  # type: ignore[method-assign]


def replace_form(network: Simple) -> None:
    network.fused = Halving()


def freeze_bias(network: Simple) -> None:
    network.layer.bias.requires_grad_(False)


def move_buffer(network: Simple) -> None:
    network.factor = 3 * network.factor


def change_attribute(network: Simple) -> None:
    network.rate = 0.25


def change_tensor(network: Simple) -> None:
    """One that is no buffer."""
    network.plain = torch.tensor(5.0)


def evaluate(network: Simple) -> None:
    network.eval()


class Halving:
    """Half of the network's output, and gradients that have to be finished."""

    def __call__(self, network: models.Network, *inputs: Any, **named: Any) -> Tensor:
        self.network = network
        return 0.5 * network.forward(*inputs, **named)  # type: ignore[no-any-return]

    def finish_gradients(self) -> None:
        for parameter in self.network.parameters():
            if parameter.grad is not None:
                parameter.grad *= 0.5

    def weights_changed(self) -> None: ...


class Simple(models.Network):
    recordable: ClassVar[bool] = True
    factor: Tensor
    mixed: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.unused, self.shape = nn.Linear(3, 3), nn.Linear(2, 2), nn.Tanh()
        self.first, self.spare = nn.Identity(), nn.Sigmoid()
        self.last: nn.Module = self.first
        self.register_buffer("factor", torch.tensor(2.0))
        self.register_buffer("mixed", torch.randn(3, 3))
        self.rate, self.plain = 0.5, torch.tensor(1.5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.shape(self.layer(x))) @ self.mixed * self.factor * self.rate * self.plain
        return out + (1.0 if self.training else 0.0)


CHANGES = [
    change_weights, move_weights, turn_weights, turn_buffer, add_hook, add_hook_of_a_weight, add_hook_after_a_weight,
    add_hook_before, add_hook_of_the_backward_pass, add_hook_before_the_backward_pass, replace_layer,
    replace_layer_twice, share_layer, replace_class, replace_forward, replace_form, freeze_bias, move_buffer,
    change_attribute, change_tensor, evaluate,
]  # fmt: skip


def same_as_autograd(network: Simple, gradient: RecordedGradient, rows: Tensor) -> bool:
    """Whether the loss and all gradients are those of the network's own passes."""
    loss_found = gradient(4, rows).clone()
    found = [None if one.grad is None else one.grad.clone() for one in network.parameters()]
    network.zero_grad()
    expected = loss(network)(4, rows)
    expected.backward()
    finish_gradients(network)
    pairs = zip(found, [one.grad for one in network.parameters()], strict=True)
    return torch.equal(loss_found, expected.detach()) and all(same(*pair) for pair in pairs)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_happens_to_the_network_reaches_the_next_step(change: Callable[[Simple], None]) -> None:
    network = Simple()
    gradient = RecordedGradient(network, loss(network))
    for _ in range(CHECKS + 3):
        gradient(4, torch.randn(4, 3))
    before = gradient(4, torch.ones(4, 3)).clone(), [one.grad for one in network.parameters()]
    change(network)
    for _ in range(CHECKS + 3):
        assert same_as_autograd(network, gradient, torch.randn(4, 3))
    assert gradient.objection == ""
    after = gradient(4, torch.ones(4, 3)), [one.grad for one in network.parameters()]
    same_gradients = all(same(one, other) for one, other in zip(before[1], after[1], strict=True))
    assert not (torch.equal(before[0], after[0]) and same_gradients), "the change must matter"


class Doubling(TorchFunctionMode):
    """Whoever enters it sees, and may change, what Python asks of torch."""

    def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        out = function(*given, **(named or {}))
        return 2 * out if function is torch.tanh else out


class Tripling(TorchDispatchMode):
    """The same for what torch asks of its kernels."""

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        out = function(*given, **(named or {}))
        return 3 * out if function is torch.ops.aten.tanh.default else out


@contextmanager
def hook_of_every_layer() -> Iterator[None]:
    handle = register_module_forward_hook(lambda layer, given, out: 3 * out if isinstance(layer, nn.Linear) else out)
    try:
        yield
    finally:
        handle.remove()


SURROUNDINGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "anomaly detection": partial(torch.autograd.set_detect_anomaly, True, check_nan=False),
    "hook of every layer": hook_of_every_layer,
    "kept tensors": lambda: torch.autograd.graph.saved_tensors_hooks(lambda one: one, lambda one: 3 * one),
    "function mode": Doubling,
    "dispatch mode": Tripling,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast of another type": lambda: torch.autocast("cpu", torch.float16),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_what_is_entered_between_steps_reaches_the_next_one(name: str) -> None:
    network = Simple()
    gradient = RecordedGradient(network, loss(network))
    for _ in range(CHECKS + 3):
        gradient(4, torch.randn(4, 3))
    for _ in range(2):
        with SURROUNDINGS[name]():
            for _ in range(CHECKS + 3):
                assert same_as_autograd(network, gradient, torch.randn(4, 3))
        assert same_as_autograd(network, gradient, torch.randn(4, 3))


@pytest.mark.parametrize("name", ["dit", "textbook"])
@pytest.mark.parametrize("processes", [1, 3])
def test_a_weight_that_is_frozen_during_a_run_stays_as_it_is(name: str, processes: int) -> None:
    """The optimizer would go on with its last gradient."""
    runs = [experiment(name, capture=capture, threads=processes) for capture in (True, False)]
    for one in runs:
        step = one.make_step()
        for number in range(1, CHECKS + 12):
            step(number)
            if number == CHECKS + 4:
                frozen = next(one.network.parameters()).requires_grad_(False)
                before = frozen.detach().clone()
        assert torch.equal(frozen, before)
    assert torch.equal(weights(runs[0]), weights(runs[1]))


class Adding(Simple):
    """Two weights that autograd gives one and the same gradient."""

    recordable: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + (self.one + self.other)


def test_gradients_can_be_changed_one_by_one() -> None:
    """In place, as clipping does, and by other memory; the next step has its own again."""
    network = Adding()
    gradient = RecordedGradient(network, loss(network))
    for _ in range(CHECKS + 4):
        rows = torch.randn(4, 3)
        assert same_as_autograd(network, gradient, rows)
        gradient(4, rows)
        expected = network.other.grad
        assert network.one.grad is not None and expected is not None
        expected = expected.clone()
        network.one.grad.mul_(0.5)
        assert torch.equal(network.other.grad, expected) and torch.equal(network.one.grad, 0.5 * expected)
        for parameter in (network.one, network.layer.weight):
            assert parameter.grad is not None
            parameter.grad.data = torch.zeros_like(parameter)
    assert gradient.objection == ""


def test_only_a_few_kinds_of_batches_are_recorded() -> None:
    """Each recording takes memory; a kind that is seen once is none of them."""
    network = Simple()
    gradient = RecordedGradient(network, loss(network))
    for size in range(1, 30):
        for _ in range(CHECKS):
            rows = torch.randn(size, 3)
            assert torch.equal(gradient(size, rows), loss(network)(size, rows).detach())
    assert len(gradient.recordings) == MOST_KINDS
    assert all(recording is not None for recording in gradient.recordings.values())


def test_rows_in_another_order_of_memory_are_another_kind() -> None:
    network = Simple()
    gradient = RecordedGradient(network, lambda size, rows: network(rows.as_strided((9,), (1,)).view(3, 3)).sum())
    for _ in range(CHECKS + 3):
        for rows in (torch.randn(3, 3), torch.randn(3, 3).t()):
            expected = gradient.loss(3, rows).detach()
            assert torch.equal(gradient(3, rows), expected)
    assert len(gradient.recordings) == 2 and gradient.objection == ""


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")]), True),
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0]), False),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, float("nan")]), False),
        (torch.tensor([0.0]), torch.tensor([-0.0]), False),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
        (torch.tensor([1.0]), torch.tensor([1.0, 1.0]), False),
        (None, torch.tensor([1.0]), False),
        (torch.tensor([1.0]), None, False),
        (None, None, True),
    ],
)
def test_same_means_all_bits(one: Tensor | None, other: Tensor | None, expected: bool) -> None:
    assert same(one, other) is expected


def test_what_the_first_step_finds_out_is_not_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as which library to use: that is found by comparing numbers, which no recording can repeat."""
    cpu_functions.prefers_onednn.cache_clear()
    cpu_functions.has_onednn.cache_clear()
    monkeypatch.setattr(cpu_functions, "amd_family", lambda: cpu_functions.ZEN_5)
    step, gradient = gradient_of(experiment("dit"))
    for number in range(1, 5):
        step(number)
    assert gradient.objection == "" and any(gradient.recordings.values())
    cpu_functions.prefers_onednn.cache_clear()


def test_a_network_with_a_tensor_that_has_no_place_is_computed() -> None:
    network = Simple()
    network.register_buffer("sparse", torch.eye(3).to_sparse())
    gradient = RecordedGradient(network, loss(network))
    for _ in range(4):
        assert same_as_autograd(network, gradient, torch.randn(4, 3))
    assert "Error" in gradient.objection


def test_an_error_of_the_network_is_its_own() -> None:
    class Failing(Simple):
        recordable: ClassVar[bool] = True

        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            if float(x.sum()) > 1e6:
                raise ValueError("too large")
            return out

    network = Failing()
    gradient = RecordedGradient(network, loss(network))
    for _ in range(4):
        assert same_as_autograd(network, gradient, torch.randn(4, 3))
    assert "data_dependent_output" in gradient.objection
    with pytest.raises(ValueError, match="too large"):
        gradient(4, torch.full((4, 3), 1e7))


def test_weights_of_the_optimizer_alone_are_trained_as_without_a_recording() -> None:
    """A recording gives gradients to the network alone, so none is made."""
    one = experiment("dit")
    one.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    update = one.make_step().update
    assert isinstance(update, PlainStep) and update.gradient is None


HOOKS: dict[str, Callable[[Simple, Callable[..., None]], Any]] = {
    "before a layer": lambda network, note: network.layer.register_forward_pre_hook(note),
    "after a layer": lambda network, note: network.layer.register_forward_hook(note),
    "before its backward pass": lambda network, note: network.layer.register_full_backward_pre_hook(note),
    "after its backward pass": lambda network, note: network.layer.register_full_backward_hook(note),
    "with a gradient": lambda network, note: network.layer.weight.register_hook(note),
    "after a gradient": lambda network, note: network.layer.weight.register_post_accumulate_grad_hook(note),
}


@pytest.mark.parametrize("kind", HOOKS)
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # the inputs of the layer have no gradient
def test_hooks_are_called_in_every_step(kind: str) -> None:
    network, seen = Simple(), list[int]()
    gradient = RecordedGradient(network, loss(network))
    for _ in range(CHECKS + 3):
        gradient(4, torch.randn(4, 3))
    HOOKS[kind](network, lambda *given: seen.append(1))
    for number in range(1, CHECKS + 4):
        gradient(4, torch.randn(4, 3))
        assert len(seen) == number


def test_anomaly_detection_finds_what_it_should() -> None:
    network = Simple()
    gradient = RecordedGradient(network, loss(network))
    for _ in range(CHECKS + 3):
        gradient(4, torch.randn(4, 3))
    with torch.autograd.set_detect_anomaly(True), pytest.warns(), pytest.raises(RuntimeError, match="nan"):
        gradient(4, torch.full((4, 3), float("nan")))


def test_autocast_may_change_its_type() -> None:
    network = Simple()
    gradient = RecordedGradient(network, loss(network))
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype):
            for _ in range(CHECKS + 3):
                assert same_as_autograd(network, gradient, torch.randn(4, 3))


def test_what_fails_while_it_is_recorded_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(work: Callable[[], object]) -> None:
        raise RuntimeError("an operation that nobody thought of")

    monkeypatch.setattr("twoclocks.training.recorded.Recording", fail)
    network = Simple()
    gradient = RecordedGradient(network, loss(network))
    for _ in range(4):
        assert same_as_autograd(network, gradient, torch.randn(4, 3))
    assert gradient.objection == "RuntimeError: an operation that nobody thought of"


def test_batches_of_other_sizes_and_shapes_have_recordings_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Simple()
    gradient = RecordedGradient(network, loss(network))
    calls = counted(gradient, monkeypatch)
    for _ in range(CHECKS + 3):
        for size, rows in ((4, torch.randn(4, 3)), (8, torch.randn(4, 3)), (4, torch.randn(2, 3))):
            assert torch.equal(gradient(size, rows), loss(network)(size, rows).detach())
    assert len(calls) == 3 * (2 + CHECKS)


def test_a_diverged_network_is_recorded_all_the_same() -> None:
    """NaN is not equal to itself, and is no objection."""
    network = Simple()
    change_weights(network)
    with torch.no_grad():
        network.layer.weight.fill_(float("nan"))
    gradient = RecordedGradient(network, loss(network))
    for _ in range(CHECKS + 2):
        assert bool(gradient(4, torch.randn(4, 3)).isnan())
    assert gradient.objection == ""


def test_gradients_lie_in_memory_as_their_weights_do() -> None:
    """Optimizers go through both side by side."""
    one = experiment("gpt")
    step, _ = gradient_of(one)
    step(1)
    step(2)
    assert all(p.grad is not None and p.grad.stride() == p.stride() for p in one.network.parameters())


def test_random_numbers_of_torchs_own_stream_are_not_recorded() -> None:
    class Noisy(Simple):
        recordable: ClassVar[bool] = True

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + torch.randn(3)

    network = Noisy()
    gradient = RecordedGradient(network, loss(network))
    rows = torch.randn(4, 3)
    assert len({float(gradient(4, rows)) for _ in range(5)}) == 5
    assert "draws random numbers" in gradient.objection


def test_refused_random_numbers_are_those_of_autograd() -> None:
    """The attempt to record leaves the stream as it was."""

    class Dropping(Simple):
        recordable: ClassVar[bool] = True

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.dropout(super().forward(x), 0.5 + 0.1 * random.random() + 0.1 * numpy.random.rand())

    network, rows, found = Dropping(), torch.randn(4, 3), []
    for gradient in (RecordedGradient(network, loss(network)), loss(network)):
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
        found.append([float(gradient(4, rows)) for _ in range(5)])
    assert found[0] == found[1]


def test_objectives_that_somebody_registers_are_not_recorded_unless_they_say_so() -> None:
    class Mine(type(objectives.create("edm"))):  # type: ignore[misc]
        pass

    assert recordable(experiment("dit").network, objectives.create("edm"))
    assert not recordable(experiment("dit").network, Mine())
