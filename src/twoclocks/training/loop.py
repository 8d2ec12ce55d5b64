"""The training loop: one function, resumable at any step, whose randomness depends on (seed, step) alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from twoclocks.core.config import Settings, setting
from twoclocks.core.errors import SettingError
from twoclocks.core.seeds import derive
from twoclocks.data.shown import Shown
from twoclocks.models.base import Network
from twoclocks.objectives.base import Objective
from twoclocks.training.average import Average
from twoclocks.training.errors import DivergedError
from twoclocks.training.forked_step import ForkedStep
from twoclocks.training.masked_loss import MaskedLoss
from twoclocks.training.noise_curriculum import NoiseCurriculum
from twoclocks.training.order import EpochOrder, Order, RandomOrder
from twoclocks.training.rate import LearningRate
from twoclocks.training.recorded import RecordedGradient, recordable
from twoclocks.training.step import PlainStep, Step, TrainingLoss, Update, captured, trimmed_mean

OptimizerName = Literal["adam", "adamw", "sgd"]
CHECK_EVERY = 50  # steps between two checks of the loss


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """Steps, batch, optimizer and where to run."""

    steps: int = setting(help="optimizer steps", at_least=1, at_most=10**12)
    batch: int = setting(256, "samples per step, drawn with replacement unless distinct", at_least=1, at_most=10**6)
    distinct: bool = setting(False, "no sample twice in a step: with batch = data.n, each step sees the whole set")
    order: Literal["random", "epochs"] = setting(
        "random",
        "random: each step draws its samples; epochs: each sample once per epoch, newly shuffled from (seed, epoch)",
        added=True,
    )
    optimizer: OptimizerName = setting("adam", "Adam, AdamW for decoupled weight decay, or gradient descent")
    momentum: float = setting(0.0, "momentum of gradient descent (sgd)", at_least=0, below=1, added=True)
    learning_rate: float = setting(1e-4, "step size, which a network in μP scales layer by layer", above=0)
    warm_up: int = setting(
        0, "steps over which the rate rises linearly; 0: none", at_least=0, at_most=10**12, added=True
    )
    decay_steps: int = setting(
        0, "step at which a cosine has lowered the rate to 0; 0: constant", at_least=0, at_most=10**12, added=True
    )
    weight_decay: float = setting(0.0, "weight decay", at_least=0)
    trim: float = setting(
        0.0,
        "share of a step's samples, those with the lowest loss, that do not count: they are known already",
        at_least=0,
        below=1,
        added=True,
    )
    masked_loss: float = setting(
        0.0, "weight of an auxiliary loss, of which some input entries are hidden; 0: none", at_least=0, added=True
    )
    masked_share: float = setting(
        0.15, "share of the input entries that the auxiliary loss hides", above=0, below=1, added=True
    )
    average: float = setting(
        0.0,
        "decay per step of an exponential moving average of the weights, evaluated beside the raw ones; 0: none",
        at_least=0,
        below=1,
        added=True,
    )
    seed: int = setting(0, "seed of initial weights, batches and noise")
    device: str = setting("cpu", "cpu, cuda or cuda:N", machine=True)
    threads: int = setting(0, "CPU threads; 0: as many as the work fills", at_least=0, at_most=256, machine=True)
    precision: Literal["float32", "tf32", "bfloat16"] = setting(
        "float32", "matrix products: exact, TF32 (GPU), or of bfloat16 copies of float32 weights", machine=True
    )
    kernels: Literal["fused", "plain"] = setting(
        "fused",
        "fused: faster forms of transformers, in bfloat16 on the GPU and in float32 on the CPU; plain: PyTorch's own",
        machine=True,
    )
    capture: bool = setting(
        True,
        "replay steps: on the GPU as CUDA graphs, evaluations too; on the CPU as lists of operations",
        machine=True,
    )

    def check(self) -> None:
        if self.distinct and self.order == "epochs":
            raise SettingError("order", self.order, "distinct belongs to random order; use one of the two")
        if self.momentum and self.optimizer != "sgd":
            raise SettingError("momentum", self.momentum, f"{self.optimizer} has none to set; use optimizer sgd, or 0")
        if self.decay_steps and self.decay_steps < self.steps:
            fix = f"nothing is learned after it; use 0 (constant) or at least training.steps ({self.steps:,})"
            raise SettingError("decay_steps", self.decay_steps, fix)
        if self.decay_steps and self.warm_up >= self.decay_steps:
            raise SettingError("warm_up", self.warm_up, f"use fewer than training.decay_steps ({self.decay_steps:,})")

    @property
    def changes_rate(self) -> bool:
        return bool(self.warm_up or self.decay_steps)

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def captures(self) -> bool:
        return self.capture and self.on_gpu


class LoopState:
    """Where the loop stands, apart from weights and optimizer: what a checkpoint needs to go on as if nothing happened.

    The sum of losses is emptied at the step after an evaluation, not by the evaluation: the state after step s is the
    same before and after that step is evaluated.
    """

    def __init__(self, device: str | torch.device = "cpu") -> None:
        self.step, self.evaluated = 0, -1  # updates done; the last step that was evaluated
        self.since = 0  # the step after which losses are summed
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        self.generator = torch.Generator(device=device)

    @property
    def loss(self) -> float:
        """Mean training loss since the last evaluation; NaN before the first update."""
        return float(self.loss_sum) / (self.step - self.since) if self.step > self.since else float("nan")

    def tensors(self) -> dict[str, Tensor]:
        return {
            "since": torch.tensor(self.since),
            "loss_sum": self.loss_sum.cpu(),
            "stream": self.generator.get_state(),
        }

    def load(self, step: int, evaluated: int, tensors: Mapping[str, Tensor]) -> None:
        self.step, self.evaluated, self.since = step, evaluated, int(tensors["since"])
        self.loss_sum.copy_(tensors["loss_sum"])
        self.generator.set_state(tensors["stream"])


def make_step(
    network: Network,
    optimizer: torch.optim.Optimizer,
    objective: Objective,
    shown: Shown,
    settings: TrainingSettings,
    state: LoopState,
    processes: int = 1,
    average: Average | None = None,
    captures: bool = True,
) -> Step:
    """The steps of a run, in the fastest form that the settings allow: a CUDA graph, or shared by several processes.

    ``captures``: false where the step is to be a part of a larger graph (``training/joint.py``).
    """
    network.train()  # before copies of the process, a CUDA graph or a recording are made, which keep this mode
    order = make_order(len(shown.rows), settings, state.generator)
    rate = LearningRate(optimizer, settings.warm_up, settings.decay_steps)
    loss, curricula = training_loss(objective, settings, shown.rows.device)
    parts = network, optimizer, loss, shown, order, state.generator, state.loss_sum, average, settings.trim
    begin = partial(begin_network, network, settings.seed)
    begins: list[Callable[[int], None]] = [order.begin, rate.begin, shown.begin, begin, *curricula]
    if processes > 1:
        # Which samples a trimmed loss counts depends on the whole batch, of which a process sees a part.
        assert not (settings.captures or settings.trim), "such a step cannot be divided"
        gradient = recorded_gradient(network, optimizer, loss, settings, share_of_mean)
        forked = ForkedStep(*parts, gradient, processes=processes)
        alone = Step(forked, begins, state.generator, settings.seed)
        return Step(forked, [*begins, partial(forked.begin, prepare=alone.begin)], state.generator, settings.seed)
    mean = partial(mean_of_batch, settings.trim)
    step = PlainStep(*parts, recorded_gradient(network, optimizer, loss, settings, mean) if captures else None)
    update: Update = step
    if settings.captures and captures:
        for prepare in begins:  # a graph reads where this is written
            prepare(1)
        update = captured(step)
    return Step(update, begins, state.generator, settings.seed)


def recorded_gradient(
    network: Network,
    optimizer: torch.optim.Optimizer,
    loss: TrainingLoss,
    settings: TrainingSettings,
    reduce: Callable[[int, Tensor], Tensor],
) -> RecordedGradient | None:
    """On the CPU, the gradient as a list of operations, where the settings and all that computes it allow for it."""
    if not settings.capture or settings.on_gpu or not recordable(network, loss):
        return None
    others = {one for group in optimizer.param_groups for one in group["params"]} - set(network.parameters())
    if others:  # a recording would leave them without a gradient
        return None

    def reduced(size: int, rows: Tensor, *drawn: Tensor) -> Tensor:
        return reduce(size, loss.loss_given(network, rows, *drawn))

    return RecordedGradient(network, reduced)


def share_of_mean(size: int, losses: Tensor) -> Tensor:
    """What losses (n,) add to the mean over a batch."""
    return losses.sum() / size


def mean_of_batch(trim: float, size: int, losses: Tensor) -> Tensor:
    """The mean of the losses of a whole batch, without those that are trimmed."""
    return trimmed_mean(losses, trim)


def begin_network(network: Network, seed: int, number: int) -> None:
    network.begin_step(derive(seed, "network", number))


def training_loss(
    objective: Objective, settings: TrainingSettings, device: torch.device
) -> tuple[TrainingLoss, list[Callable[[int], None]]]:
    """What training minimises, and what has to be prepared before each step."""
    loss: TrainingLoss = objective
    curricula: list[Callable[[int], None]] = []
    if objective.has_curriculum:
        loss = curriculum = NoiseCurriculum(objective, device)
        curricula.append(curriculum.begin)
    if settings.masked_loss:
        loss = MaskedLoss(loss, settings.masked_loss, settings.masked_share)
    return loss, curricula


def make_order(n: int, settings: TrainingSettings, generator: torch.Generator) -> Order:
    """The order in which steps see n rows; ``generator`` is seeded before every step."""
    if settings.order == "epochs":
        return EpochOrder(n, settings.batch, settings.seed, generator.device)
    return RandomOrder(n, settings.batch, generator, settings.distinct)


def train(
    network: Network,
    optimizer: torch.optim.Optimizer,
    objective: Objective,
    shown: Shown,
    settings: TrainingSettings,
    schedule: tuple[int, ...],
    on_evaluation: Callable[[int, float], None],
    on_check: Callable[[int, float], None] = lambda step, loss: None,
    on_step: Callable[[int], None] = lambda step: None,
    state: LoopState | None = None,
    processes: int = 1,
    average: Average | None = None,
) -> None:
    """Train from where ``state`` stands to ``settings.steps``, as ``updates`` says."""
    state = state if state is not None else LoopState(shown.rows.device)
    step = make_step(network, optimizer, objective, shown, settings, state, processes, average)
    for number in updates(network, settings, schedule, state, on_evaluation, on_check, on_step):
        step(number)


def updates(
    network: Network,
    settings: TrainingSettings,
    schedule: tuple[int, ...],
    state: LoopState,
    on_evaluation: Callable[[int, float], None],
    on_check: Callable[[int, float], None] = lambda step, loss: None,
    on_step: Callable[[int], None] = lambda step: None,
) -> Iterator[int]:
    """The numbers of the updates from where ``state`` stands to ``settings.steps``; the caller makes each of them.

    "Step s" means after s updates. ``on_evaluation(step, loss)`` is called at every scheduled step with the mean
    training loss since the last call. Losses are summed on the device and checked every CHECK_EVERY steps and before
    each call, so the host need not wait at every step; what is not finite raises before it is evaluated or stored.
    ``on_check`` follows every check. ``on_step`` is called when a step is done with all that belongs to it: the place
    to store or to stop.
    """
    due = set(schedule)

    def evaluate() -> None:
        if state.step in due and state.step > state.evaluated:
            network.eval()
            on_evaluation(state.step, state.loss)
            network.train()
            state.evaluated = state.step

    evaluate()
    while state.step < settings.steps:
        if state.evaluated == state.step:
            state.since = state.step
            state.loss_sum.zero_()
        yield state.step + 1
        state.step += 1
        if state.step in due or state.step % CHECK_EVERY == 0 or state.step == settings.steps:
            check_finite(network, state)
            on_check(state.step, state.loss)
        evaluate()
        on_step(state.step)


def check_finite(network: Network, state: LoopState) -> None:
    """A sum keeps every NaN and infinity that entered it; the weights show what the last update did."""
    largest = torch._foreach_norm([parameter.detach() for parameter in network.parameters()], float("inf"))
    if not bool(torch.isfinite(torch.stack([state.loss_sum.float(), *largest])).all()):  # the host waits but once
        raise DivergedError(state.step, last_good=max(state.evaluated, 0))
