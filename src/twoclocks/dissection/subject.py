"""What is dissected: a model at several training steps, its data, and the ideal denoisers it is compared with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from twoclocks.clocks.window import Clocks
from twoclocks.core.config import to_mapping
from twoclocks.core.errors import UserError
from twoclocks.core.seeds import torch_stream
from twoclocks.data.encodings import Decoded
from twoclocks.data.sets import loss_splits, natural_held_out
from twoclocks.evaluation.evaluator import Evaluator
from twoclocks.evaluation.samples import Outcome
from twoclocks.evaluation.states import between_threshold, states_of
from twoclocks.objectives.base import OBJECTIVES, Network, sample
from twoclocks.oracles import Denoiser, cube_denoiser, empirical_denoiser, rule_denoiser
from twoclocks.runs.assembly import SHARE, Experiment, sampling_noise
from twoclocks.runs.load import Run
from twoclocks.runs.settings import RunSettings
from twoclocks.store.checksums import DamagedError
from twoclocks.training.loop import TrainingSettings
from twoclocks.training.thread_pool import ThreadPool

Reads = Literal["samples", "weights"]  # what a view needs of every checkpoint
SPLITS = ("train", "held_out", "cube")  # of the rows whose losses are compared
ROWS = 2048  # that a GPU works on at once


class CheckpointError(UserError):
    """One checkpoint cannot be measured; the others can."""


class Subject(ABC):
    """Settings, data and oracles of one run, and access to its samples and networks by step."""

    def __init__(
        self, settings: RunSettings, device: str, clocks: Clocks | None = None, precision: str = "float32"
    ) -> None:
        assert settings.encoding is not None
        self.settings, self.device, self.clocks, self.precision = settings, device, clocks, precision
        self.rule, self.encoding, self.objective = settings.rule, settings.encoding, settings.objective
        self.train = settings.data.training_set(settings.rule)
        self.unit = self.encoding.unit(self.rule)
        self.pool = ThreadPool(1)
        self.last_judged: tuple[int, Decoded, Outcome] | None = None

    @abstractmethod
    def steps(self, reads: Reads) -> tuple[int, ...]:
        """The steps for which samples, or weights, are known."""

    @abstractmethod
    def network(self, step: int) -> Network:
        """The network after ``step`` updates; valid until another step is asked for."""

    @abstractmethod
    def samples(self, step: int) -> Decoded:
        """The samples generated at a step, row i always from the same noise."""

    def origin(self, reads: Reads, step: int) -> str | None:
        """SHA-256 of the samples or weights at a step; None: unknown, so that measurements cannot be cached."""
        return None

    def judged(self, step: int) -> tuple[Decoded, Outcome]:
        """The samples of a step and their evaluation; the result of the last call is kept."""
        if self.last_judged is None or self.last_judged[0] != step:
            decoded = self.samples(step)
            if not len(decoded.symbols):
                raise CheckpointError(f"step {step:,}: no samples were stored; use evaluation.keep_samples above 0")
            self.last_judged = (step, decoded, self.evaluator.judge(decoded))
        return self.last_judged[1:]

    def states(self, step: int) -> Tensor:
        """Which of the four states each sample is in, uint8 (n,)."""
        threshold = between_threshold(self.settings.evaluation.quantization, self.encoding, self.rule)
        return states_of(self.judged(step)[1], threshold)

    @cached_property
    def evaluator(self) -> Evaluator:
        held_out = natural_held_out(self.rule, self.train, self.settings.data.seed)
        train = self.train.to(self.device)
        return Evaluator(self.rule, train, self.settings.evaluation, held_out=held_out)

    @cached_property
    def oracles(self) -> dict[str, Denoiser]:
        """The ideal denoisers: of the cube, of the rule where its exact posterior is known, of the training set.

        Real images have the last one alone.
        """
        found: dict[str, Denoiser] = {}
        if not self.rule.is_image:
            found["cube"] = cube_denoiser(self.rule, self.encoding)
            with suppress(UserError):  # no closed form and too many valid arrays: the sentences of the views mention it
                found["rule"] = rule_denoiser(self.rule, self.encoding)
        return {**found, "memory": empirical_denoiser(self.train, self.rule, self.encoding)}

    def splits(self, rows: int) -> dict[str, Tensor]:
        """Encoded rows of training set, held-out valid set (where there is one) and cube, the same number of each."""
        found = loss_splits(self.rule, self.train, rows, self.settings.data.seed)
        return {name: self.encode(symbols) for name, symbols in found.items()}

    def encode(self, symbols: Tensor) -> Tensor:
        return self.encoding.encode(self.rule, symbols).to(self.device)

    def denoise(self, step: int, y: Tensor, sigma: Tensor) -> Tensor:
        """D(y; σ) of the network at a step, y (n, *shape), sigma (n,)."""
        return finite(self.in_chunks(self.denoiser(step), y, sigma), step)

    def denoiser(self, step: int) -> Callable[[Tensor, Tensor], Tensor]:
        """D(y; σ) of the network at a step; views that use it have asked the objective whether there is one."""
        found = self.objective.denoiser(self.network(step))
        if found is None:
            raise UserError(f"objective {OBJECTIVES.name_of(self.objective)} has no denoiser")
        return found

    def ideals(self, y: Tensor, sigma: Tensor) -> dict[str, Tensor]:
        """D(y; σ) of each oracle, y (n, *shape), sigma (n,)."""
        share = -(-len(y) // self.pool.size)
        return {name: self.in_chunks(oracle, y, sigma, size=share) for name, oracle in self.oracles.items()}

    def in_chunks(self, work: Callable[..., Tensor], *tensors: Tensor, size: int | None = None) -> Tensor:
        """Apply ``work`` to chunks of rows, in parallel on the threads of the CPU, and join the results."""

        @torch.no_grad()
        def on_chunk(chunk: tuple[Tensor, ...]) -> Tensor:
            return work(*chunk)

        size = size or (ROWS if tensors[0].is_cuda else SHARE)
        chunks = list(zip(*(tensor.split(size) for tensor in tensors), strict=True))
        return torch.cat(self.pool.map(on_chunk, chunks))

    def stream(self, purpose: str) -> torch.Generator:
        """Randomness of a view: the same at every step, so that differences come from the model."""
        return torch_stream(self.settings.evaluation.seed, f"dissection, {purpose}")


class RunSubject(Subject):
    """A run directory, finished or still being written; reads nothing else."""

    def __init__(self, run: Run, device: str | None = None, precision: str | None = None) -> None:
        settings = run.settings
        device = device if device is not None else usable(settings.training.device)
        # As it was trained on a GPU; elsewhere lower precisions save no time.
        fitting = settings.training.precision if device.startswith("cuda") else "float32"
        super().__init__(settings, device, clocks_of(run), precision or fitting)
        self.run, self.loaded = run, -1
        self.artifacts = {
            "samples": run.directory.artifact_steps("samples"),
            "weights": run.directory.artifact_steps("weights"),
        }

    @cached_property
    def experiment(self) -> Experiment:
        training = to_mapping(self.settings.training) | {"device": self.device, "precision": self.precision}
        training["average"] = 0.0  # the stored weights are the raw ones
        experiment = Experiment(replace(self.settings, training=TrainingSettings(**training)))
        experiment.network.eval()
        self.pool = experiment.pool
        return experiment

    def steps(self, reads: Reads) -> tuple[int, ...]:
        if reads == "weights" and not self.artifacts["weights"]:  # then the last checkpoints are better than nothing
            return tuple(self.run.directory.checkpoint_steps())
        return tuple(sorted(self.artifacts[reads]))

    def network(self, step: int) -> Network:
        if step != self.loaded:
            self.experiment.load_weights(self.weights(step))
            self.loaded = step
        return self.pool.guarded(self.experiment.network)

    def weights(self, step: int) -> dict[str, Tensor]:
        directory = self.run.directory
        if step in self.artifacts["weights"]:
            return directory.artifacts["weights"].read(step, self.artifacts["weights"][step])
        tensors = directory.checkpoints.read(step).tensors
        return {name.removeprefix("network."): value for name, value in tensors.items() if name.startswith("network.")}

    def samples(self, step: int) -> Decoded:
        stored = self.run.directory.artifacts["samples"].read(step, self.artifacts["samples"][step])
        return Decoded(stored["symbols"].long().to(self.device), stored["distance"].to(self.device))

    def origin(self, reads: Reads, step: int) -> str | None:
        if step in self.artifacts[reads]:
            return self.artifacts[reads][step]
        try:
            about, _ = self.run.directory.checkpoints.intact(step)
        except DamagedError:
            return None  # reading it raises the error with the reason
        return str(about["tensors"])


class Models(Subject):
    """Networks given as functions, one per step: an oracle, or a model from elsewhere."""

    def __init__(self, settings: RunSettings, networks: Mapping[int, Network], device: str = "cpu") -> None:
        super().__init__(settings, device)
        self.networks = dict(sorted(networks.items()))

    def steps(self, reads: Reads) -> tuple[int, ...]:
        return tuple(self.networks)

    def network(self, step: int) -> Network:
        return self.networks[step]

    def samples(self, step: int) -> Decoded:
        noise = sampling_noise(self.settings).to(self.device)
        return self.encoding.decode(self.rule, sample(self.objective, self.networks[step], noise))


def finite(values: Tensor, step: int) -> Tensor:
    """The values themselves; raises CheckpointError where some are NaN or infinite."""
    if not bool(torch.isfinite(values).all()):
        raise CheckpointError(f"step {step:,}: the network's output is not finite")
    return values


def clocks_of(run: Run) -> Clocks | None:
    """The clocks of a run; None before its first evaluation."""
    return run.clocks() if list(run.directory.metrics()) else None


def usable(device: str) -> str:
    """The device of the run, or the CPU where that device is not available."""
    return device if not device.startswith("cuda") or torch.cuda.is_available() else "cpu"
