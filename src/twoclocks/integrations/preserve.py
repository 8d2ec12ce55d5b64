"""Sampling in the middle of training without a trace: modes, weights and random state are as before afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from twoclocks.core.errors import UserError

WRAPPERS = (nn.parallel.DistributedDataParallel, nn.DataParallel, torch.optim.swa_utils.AveragedModel)


@contextmanager
def sampling(model: Any, ema: Any | None, seed: int | None) -> Iterator[Any]:
    """Yields the model to sample from, in eval mode, without gradients; ``seed`` starts all random generators."""
    with ExitStack() as stack:
        stack.enter_context(kept_random_state(seed))
        stack.enter_context(torch.no_grad())
        chosen = stack.enter_context(sampling_weights(unwrap(model), ema))
        stack.enter_context(evaluation_mode(chosen))
        yield chosen


@contextmanager
def kept_random_state(seed: int | None = None) -> Iterator[None]:
    """Restores the generators of torch (CPU, every CUDA device), numpy and Python; inside they start at ``seed``."""
    on_cuda = torch.cuda.is_initialized()  # asking an uninitialised CUDA would start it
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()
    cuda = torch.cuda.get_rng_state_all() if on_cuda else []
    try:
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            if on_cuda:
                torch.cuda.manual_seed_all(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        np.random.set_state(before[2])
        if on_cuda:
            torch.cuda.set_rng_state_all(cuda)


@contextmanager
def evaluation_mode(model: Any) -> Iterator[None]:
    """Puts all submodules in eval mode; afterwards each has its own flag again (some may be frozen in eval mode)."""
    if not isinstance(model, nn.Module):
        yield  # a pipeline or function: what it contains is the sampler's business
        return
    flags = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, flag in flags:
            module.training = flag


def sampling_weights(model: Any, ema: Any | None) -> AbstractContextManager[Any]:
    """Context manager that yields the model with averaged weights, in whichever way ``ema`` keeps them.

    A module (or ``AveragedModel``) is used in place of the model. An object with ``store``, ``copy_to`` and ``restore``
    (``EMAModel`` of diffusers, torch-ema) exchanges the parameters. A function must return a context manager in which
    the model has the averaged weights.
    """
    if ema is None:
        return _given(model)
    if isinstance(ema, nn.Module):
        return _given(unwrap(ema))
    if all(hasattr(ema, name) for name in ("store", "copy_to", "restore")):
        return _exchanged(model, ema)
    if callable(ema):
        return _inside(model, ema())
    expected = "give a module, an object with store, copy_to and restore, or a function that returns a context manager"
    raise UserError(f"ema: {type(ema).__name__} is not allowed; {expected}")


@contextmanager
def _given(model: Any) -> Iterator[Any]:
    yield model


@contextmanager
def _exchanged(model: Any, ema: Any) -> Iterator[Any]:
    parameters = list(model.parameters())
    ema.store(parameters)
    try:
        ema.copy_to(parameters)
        yield model
    finally:
        ema.restore(parameters)


@contextmanager
def _inside(model: Any, weights: AbstractContextManager[Any]) -> Iterator[Any]:
    with weights:
        yield model


def unwrap(model: Any) -> Any:
    """The module inside of wrappers; UserError if its parameters are spread over processes.

    Only one process samples. The forward pass of a wrapper would wait there for the others.
    """
    while isinstance(model, WRAPPERS):
        model = model.module
    if isinstance(model, nn.Module):
        spread = any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules())
        if spread or any(hasattr(parameter, "full_tensor") for parameter in model.parameters()):
            fix = "give an unsharded copy as ema, or use DistributedDataParallel"
            raise UserError(f"model: its parameters are sharded over processes, but only rank 0 samples; {fix}")
    return model
