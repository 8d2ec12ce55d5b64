"""The parts of one run, assembled from its settings: data, network, objective, evaluator."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from twoclocks.core.config import to_mapping
from twoclocks.core.errors import UserError
from twoclocks.core.plugins import imported_names
from twoclocks.core.seeds import derive, torch_stream
from twoclocks.data.encodings import Decoded
from twoclocks.data.sets import loss_splits, room_outside
from twoclocks.data.shown import Shown
from twoclocks.models.base import MODELS, Network, parameter_count
from twoclocks.objectives.base import sample
from twoclocks.runs.columns import (
    AVERAGED_METRICS,
    LOSS,
    LOSS_GAP_ERROR,
    LOSS_HELD_OUT,
    LOSS_HELD_OUT_BITS,
    LOSS_HELD_OUT_ERROR,
    STEP,
    averaged_columns,
    averaged_row,
    loss_column,
)
from twoclocks.runs.evaluators import make_evaluator
from twoclocks.runs.extraction import Extraction
from twoclocks.runs.loss_errors import error_of_gap, error_of_mean
from twoclocks.runs.settings import RunSettings
from twoclocks.store.provenance import commit, machine, versions
from twoclocks.training.average import Average
from twoclocks.training.capture import Replayed
from twoclocks.training.cpu_memory import keep_memory
from twoclocks.training.forked_step import divisible
from twoclocks.training.loop import LoopState, check_finite, make_step, updates
from twoclocks.training.optimizer import make_optimizer, names_in_order, use_kernels
from twoclocks.training.step import Step, finish_gradients
from twoclocks.training.thread_pool import ThreadPool, pool_size

SHARE = 128  # samples that a thread generates at a time, so that intermediate results stay in its cache


def sampling_noise(settings: RunSettings, count: int | None = None, purpose: str = "sampling noise") -> Tensor:
    """The initial noise of the samples, the same at every evaluation of a run; ``count``: of so many others."""
    assert settings.encoding is not None
    stream = torch_stream(settings.evaluation.seed, purpose)
    shape = settings.encoding.shape(settings.rule)
    return settings.objective.draw_noise(settings.evaluation.samples if count is None else count, shape, stream)


class Experiment:
    """The parts of one run, built from its settings.

    ``textbook``: with the textbook's forward pass in one thread, whatever the settings say about kernels and threads.
    """

    def __init__(self, settings: RunSettings, textbook: bool = False) -> None:
        assert settings.encoding is not None
        self.training = replace(settings.training, kernels="plain", threads=1) if textbook else settings.training
        self.settings, self.rule, self.encoding = settings, settings.rule, settings.encoding
        self.device = settings.training.device
        index = torch.device(self.device).index
        if settings.training.on_gpu and index is not None:
            torch.cuda.set_device(index)  # streams, graphs and kernels run where the tensors are
        torch.set_float32_matmul_precision("highest" if settings.training.precision == "float32" else "high")
        torch.backends.cudnn.allow_tf32 = settings.training.precision != "float32"  # convolutions have a switch of
        torch.backends.cudnn.deterministic = True  # their own; a run that is resumed must be the same run
        self.train_rows = settings.data.training_set(self.rule)
        self.splits = self.loss_splits()
        self.evaluator = make_evaluator(settings, self.train_rows, self.device)
        self.network = self.build_network()
        self.average = None
        averaged = copy.deepcopy(self.network) if settings.training.average else None
        self.objective = use_kernels(self.network, settings.objective, self.training)
        if averaged is not None:
            use_kernels(averaged, settings.objective, self.training)
            self.average = Average(self.network, averaged, settings.training.average)
        self.optimizer = make_optimizer(self.network, settings.training)
        if not self.training.on_gpu:
            keep_memory()
        self.pool = self.make_pool()
        self.processes = self.count_processes()
        self.loop = LoopState(self.device)
        self.samplers: dict[Network, Replayed[Tensor]] = {}  # by the network whose weights they read
        self.joint_samples: Callable[[], Tensor] | None = None  # drawn for all runs that are trained together
        self.noise = sampling_noise(settings).to(self.device)
        self.extraction = None
        if count := settings.evaluation.prompts:
            noise = sampling_noise(settings, count, "noise of prompts").to(self.device)
            self.extraction = Extraction(settings, self.prompt_texts(), noise)

    def prompt_texts(self) -> dict[str, Tensor]:
        """Training and held-out texts whose beginnings are given to the model, none of them twice."""
        held_out = self.evaluator.reference.held_out
        found = {"train": self.train_rows} | ({} if held_out is None else {"held_out": held_out})
        return {name: rows[: self.settings.evaluation.prompts].to(self.device) for name, rows in found.items()}

    def build_network(self) -> Network:
        """The network; its initial weights are drawn on the CPU, so they are the same on every device."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(self.settings.training.seed, "initial weights"))
            network = self.settings.model.build(self.encoding.shape(self.rule), self.rule.symbols)
        if not isinstance(network, Network):
            name = MODELS.name_of(self.settings.model)
            fix = "derive it from twoclocks.models.Network, which is a torch.nn.Module"
            raise UserError(f"model.name: {name!r} builds a {type(network).__name__}; {fix}")
        return network.to(self.device)

    def make_pool(self) -> ThreadPool:
        """The thread pool of evaluations; each thread of the CPU works on its own samples, on a GPU there is one."""
        training = self.training
        if training.on_gpu:
            return ThreadPool(1)
        tokens = training.batch * math.prod(self.encoding.shape(self.rule)[-2:])
        return ThreadPool(pool_size(training.threads, parameter_count(self.network), tokens))

    def count_processes(self) -> int:
        """Processes among which a step is divided, one per core; if it cannot be, cores share each operation."""
        if self.training.on_gpu:
            return 1
        divided = self.pool.size > 1 and not self.training.trim and divisible(self.network)
        torch.set_num_threads(1 if divided else self.pool.size)
        return self.pool.size if divided else 1

    def loss_splits(self) -> dict[str, Tensor]:
        """Encoded rows of the splits on which losses are compared: train, held_out, cube."""
        found = loss_splits(self.rule, self.train_rows, self.settings.evaluation.loss_rows, self.settings.data.seed)
        return {name: self.encode(rows) for name, rows in found.items()}

    def shown(self) -> Shown:
        """The training set as steps show it."""
        data = self.settings.data
        easier = data.easier_set(self.rule)
        encoded = None if easier is None else self.encode(easier)
        return Shown(self.encode(self.train_rows), data.changes(self.rule, self.device), encoded, data.easier_steps)

    def encode(self, rows: Tensor) -> Tensor:
        return self.encoding.encode(self.rule, rows).to(self.device)

    def dry_run(self) -> None:
        """Compute one gradient without an update: what does not fit into memory fails before anything is written."""
        rows = self.train_rows[torch.arange(self.settings.training.batch) % len(self.train_rows)]
        generator = torch_stream(self.settings.training.seed, "rehearsal", device=self.device)
        self.objective.loss(self.network, self.encode(rows), generator).mean().backward()
        finish_gradients(self.network)
        self.optimizer.zero_grad(set_to_none=True)

    def train(
        self,
        on_evaluation: Callable[[int, float], None],
        on_check: Callable[[int, float], None] = lambda step, loss: None,
        on_step: Callable[[int], None] = lambda step: None,
    ) -> None:
        """Train to the last step."""
        step = self.make_step()
        for number in self.updates(on_evaluation, on_check, on_step):
            step(number)

    def updates(
        self,
        on_evaluation: Callable[[int, float], None],
        on_check: Callable[[int, float], None] = lambda step, loss: None,
        on_step: Callable[[int], None] = lambda step: None,
    ) -> Iterator[int]:
        """The number of every update that is left, which the caller makes: ``make_step()(number)``."""
        training, schedule = self.settings.training, self.settings.schedule
        return updates(self.network, training, schedule, self.loop, on_evaluation, on_check, on_step)

    def make_step(self, captures: bool = True) -> Step:
        """The steps of this run, as training takes them."""
        parts = self.network, self.optimizer, self.objective, self.shown(), self.training, self.loop, self.processes
        return make_step(*parts, self.average, captures)

    def sample(self, network: Network | None = None) -> Tensor:
        """Encoded samples from the noise of this run, which is the same at every evaluation and for every network."""
        if network is None and self.joint_samples is not None:
            return self.joint_samples()
        return self.own_samples(network)

    def own_samples(self, network: Network | None = None) -> Tensor:
        """Encoded samples as this run draws them by itself."""
        network = network if network is not None else self.network
        if self.pool.size > 1:
            share = partial(sample, self.objective, self.pool.guarded(network))
            return torch.cat(self.pool.map(share, self.noise.split(SHARE)))
        if network not in self.samplers:
            work = partial(sample, self.objective, network, self.noise)
            self.samplers[network] = Replayed(work, self.settings.training.captures)
        return self.samplers[network]()

    @torch.no_grad()
    def evaluate(self, step: int, loss: float) -> tuple[dict[str, float], dict[str, dict[str, Tensor]]]:
        """The stored row of a step and its artifacts by kind; random numbers come from streams of its own."""
        decoded = self.encoding.decode(self.rule, self.sample())
        row: dict[str, float] = {STEP: step, LOSS: loss, **self.evaluator.row(decoded)}
        row |= self.losses()
        if self.extraction is not None:
            row |= self.extraction.row(self.network)
        if self.average is not None:
            averaged = self.encoding.decode(self.rule, self.sample(self.average.current()))
            row |= averaged_row(self.evaluator.row(averaged, AVERAGED_METRICS))
        artifacts = {"samples": self.stored_samples(decoded)}
        if step in self.settings.weight_steps:
            artifacts["weights"] = self.weights()
        return row, artifacts

    def stored_samples(self, decoded: Decoded) -> dict[str, Tensor]:
        """The samples of an evaluation as they are stored: symbols, and distances from the nearest symbol."""
        keep = self.settings.evaluation.keep_samples
        kind = torch.uint8 if self.rule.symbols <= 256 else torch.int32
        return {"symbols": decoded.symbols[:keep].to("cpu", kind), "distance": decoded.distance[:keep].cpu()}

    @torch.no_grad()
    def samples_of(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The samples that an evaluation of other weights stores; afterwards the network has its own again."""
        own = {name: value.clone() for name, value in self.weights().items()}
        self.load_weights(weights)
        self.network.eval()
        samples = self.stored_samples(self.encoding.decode(self.rule, self.sample()))
        self.network.train()
        self.load_weights(own)
        return samples

    @torch.no_grad()
    def losses(self) -> dict[str, float]:
        """Mean loss on every split, and the standard error of held-out minus training loss."""
        found = {}
        for name, rows in self.splits.items():
            # The same noise at every step and for every split, so that differences come from the model.
            generator = torch_stream(self.settings.evaluation.seed, "loss noise", device=self.device)
            found[name] = self.objective.loss(self.network, rows, generator).double()
        row = {loss_column(name): float(values.mean()) for name, values in found.items()}
        for name, value in row.items():
            if not math.isfinite(value):
                raise FloatingPointError(f"{name} is {value}")
        if "held_out" in found and len(found["train"]) > 1:
            row |= self.loss_errors(found["train"], found["held_out"])
            if self.rule.is_text and self.characters_per_token is not None:
                row[LOSS_HELD_OUT_BITS] = row[LOSS_HELD_OUT] / (math.log(2) * self.characters_per_token)
        return row

    def loss_errors(self, train: Tensor, held_out: Tensor) -> dict[str, float]:
        """Standard errors of the loss gap and, for natural data, of the held-out loss; one distinct row has none."""
        rooms = len(self.train_rows), room_outside(self.rule, self.train_rows)
        ours, theirs = (min(room, len(train)) for room in rooms)
        errors = {LOSS_GAP_ERROR: error_of_gap(train, held_out, (ours, theirs), is_whole=rooms[0] <= len(train))}
        if self.rule.is_corpus:  # the quality of natural data, whose samples are neither valid nor invalid
            errors[LOSS_HELD_OUT_ERROR] = error_of_mean(held_out, theirs)
        return {name: error for name, error in errors.items() if math.isfinite(error)}

    @cached_property
    def characters_per_token(self) -> float | None:
        """Mean over the held-out texts whose loss is measured; None where nobody knows."""
        return self.rule.characters_per_token(self.splits["held_out"])

    def weights(self) -> dict[str, Tensor]:
        return {name: value.detach().cpu() for name, value in self.network.state_dict().items()}

    def load_weights(self, tensors: Mapping[str, Tensor]) -> None:
        self.network.load_state_dict(dict(tensors))
        if self.network.fused is not None:
            self.network.fused.weights_changed()

    def weights_moved(self) -> None:
        """Forget what was captured with the weights in other memory than now."""
        self.samplers.clear()
        if self.extraction is not None:
            self.extraction.samplers.clear()

    def state(self) -> dict[str, Tensor]:
        """Weights, their average, optimizer moments and loop under flat names: all that a run needs to continue."""
        check_finite(self.network, self.loop)
        tensors = {f"network.{name}": value for name, value in self.weights().items()}
        names = names_in_order(self.network, self.optimizer)
        for index, moments in self.optimizer.state_dict()["state"].items():
            for key, value in moments.items():
                tensors[f"optimizer.{names[index]}.{key}"] = value.detach().cpu()
        if self.average is not None:
            tensors |= {f"average.{name}": value for name, value in self.average.tensors().items()}
        return {**tensors, **{f"loop.{name}": value for name, value in self.loop.tensors().items()}}

    def load_state(self, step: int, evaluated: int, tensors: Mapping[str, Tensor]) -> None:
        """Restore what ``state`` returned after ``step`` updates; ``evaluated`` is the step of the last evaluation."""
        parts: dict[str, dict[str, Tensor]] = {"network": {}, "optimizer": {}, "average": {}, "loop": {}}
        for name, value in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = value
        self.load_weights(parts["network"])
        moments: dict[int, dict[str, Tensor]] = {}
        for index, name in enumerate(names_in_order(self.network, self.optimizer)):
            found = {key.removeprefix(f"{name}."): key for key in parts["optimizer"] if key.startswith(f"{name}.")}
            moments[index] = {key: parts["optimizer"][full] for key, full in found.items()}
        groups = self.optimizer.state_dict()["param_groups"]
        state = {index: values for index, values in moments.items() if values}  # before the first update there is none
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        if self.average is not None:
            self.average.load(parts["average"])
        self.loop.load(step, evaluated, parts["loop"])

    def environment(self) -> dict[str, Any]:
        """Versions, commit and machine: what besides the settings decides the last bits of a result."""
        here = machine(self.device) | ({} if self.settings.training.on_gpu else {"threads": self.pool.size})
        return {"versions": versions(), "commit": commit(), "machine": here}

    def manifest(self) -> dict[str, Any]:
        return {
            "settings": to_mapping(self.settings),
            "origin": self.settings.digest(),
            "derived": self.settings.derived() | {"copy_chance": self.evaluator.reference.copy_chance},
            **({"imports": imported} if (imported := imported_names()) else {}),
            "schedule": list(self.settings.schedule),
            "parameters": parameter_count(self.network),
            **self.environment(),
            "metrics": self.described_columns(),
        }

    def described_columns(self) -> list[dict[str, Any]]:
        """Meaning and chance levels of the metrics' columns, as the manifest holds them."""
        columns = self.evaluator.columns()
        if self.extraction is not None:
            columns += self.extraction.columns()
        if self.average is not None:
            columns += averaged_columns(self.evaluator.columns(AVERAGED_METRICS))
        return [asdict(column) for column in columns]
