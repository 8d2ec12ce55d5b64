"""The matrix products of a training step alone: no loop that makes them can be faster."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from twoclocks.bench.conditions import with_threads
from twoclocks.bench.timing import Work
from twoclocks.kernels.cpu_functions import has_onednn, onednn_product, onednn_weight_gradient
from twoclocks.runs.assembly import Experiment
from twoclocks.training.capture import Captured
from twoclocks.training.thread_pool import CORES, ThreadPool

Shape = tuple[int, int, int]  # rows, inputs and outputs of a linear layer
Factors = tuple[Tensor, Tensor, Tensor]  # input, weight, and the gradient of the output


def products_alone(experiment: Experiment, pool: ThreadPool) -> tuple[dict[str, Work], int]:
    """All products of a step on random data, by the way in which cores share them; and how many operations they are.

    On the CPU there are two ways: all cores inside each product; or threads that each make the products of their own
    samples. Each is tried with torch's own products and with oneDNN's.
    """
    shapes = layer_shapes(experiment)
    operations = sum(6 * rows * inputs * outputs for rows, inputs, outputs in shapes)
    device = experiment.device
    if device != "cpu":
        work = products([random_factors(shape, device, torch.bfloat16) for shape in shapes])
        work()
        return {"one after another": Captured(work)}, operations
    layers = [random_factors(shape, device, torch.float32) for shape in shapes]
    ways: dict[str, Work] = {}
    for library, make in {"": products, ", oneDNN": onednn_products}.items():
        if make is onednn_products and not has_onednn():
            continue
        ways[f"all cores inside each product{library}"] = with_threads(make(layers), CORES)
        if pool.size == 1:
            ways[f"1 thread{library}"] = with_threads(make(layers), 1)
        else:
            parts = [make(part) for part in divided(layers, pool.size)]
            ways[f"batch divided among {pool.size} threads{library}"] = partial(pool.map, call, parts)
    return ways, operations


def random_factors(shape: Shape, device: str, dtype: torch.dtype) -> Factors:
    rows, inputs, outputs = shape
    sizes = (rows, inputs), (outputs, inputs), (rows, outputs)
    x, weight, slope = (torch.randn(size, device=device).to(dtype) for size in sizes)
    return x, weight, slope


def divided(layers: list[Factors], size: int) -> list[list[Factors]]:
    """For each thread all layers, with its share of the rows and the same weights."""
    parts: list[list[Factors]] = [[] for _ in range(size)]
    for x, weight, slope in layers:
        for part, own_x, own_slope in zip(parts, x.tensor_split(size), slope.tensor_split(size), strict=True):
            part.append((own_x, weight, own_slope))
    return parts


def products(layers: list[Factors]) -> Work:
    """Forward pass, gradient of the input, gradient of the weight; into memory that is there already."""
    results = [(torch.empty_like(slope), torch.empty_like(x), torch.empty_like(w)) for x, w, slope in layers]

    def work() -> None:
        for (x, weight, slope), (out, of_input, of_weight) in zip(layers, results, strict=True):
            torch.mm(x, weight.T, out=out)
            torch.mm(slope, weight, out=of_input)
            torch.mm(slope.T, x, out=of_weight)

    return work


def onednn_products(layers: list[Factors]) -> Work:
    """The same by oneDNN."""

    def work() -> None:
        for x, weight, slope in layers:
            onednn_product(x, weight)
            onednn_product(slope, weight.T)
            onednn_weight_gradient(slope, x)

    return work


def call(work: Work) -> None:
    work()


def layer_shapes(experiment: Experiment) -> list[Shape]:
    """The shape of every linear layer in one pass over a batch; layers of one column are no products."""
    found: list[Shape] = []

    def note(layer: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        assert isinstance(layer, nn.Linear)
        found.append((given[0].numel() // layer.in_features, layer.in_features, layer.out_features))

    layers = [layer for layer in experiment.network.modules() if isinstance(layer, nn.Linear)]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    experiment.network.fused, fused = None, experiment.network.fused  # which calls no layer
    rows = experiment.train_rows[torch.arange(experiment.settings.training.batch) % len(experiment.train_rows)]
    generator = torch.Generator(experiment.device).manual_seed(0)
    with torch.no_grad():
        experiment.objective.loss(experiment.network, experiment.encode(rows), generator)
    experiment.network.fused = fused
    for hook in hooks:
        hook.remove()
    return [shape for shape in found if min(shape[1:]) >= 16]
