"""The U-Net of images with ddpm on the GPU: replayed steps and samples, and a resumed run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from twoclocks.evaluation.image_neighbours import ImageNeighbours
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
MODEL = {"name": "unet2d", "width": 32, "multipliers": [1, 2], "blocks": 2, "attention": [3], "heads": 4}
OBJECTIVE = {"name": "ddpm", "variance": "learned", "sampler": "ancestral", "sampler_levels": 10}


def experiment(**training: Any) -> Experiment:
    change = {"model": {**MODEL, "dropout": 0.2, "variance": True}, "objective": OBJECTIVE}
    small = {"data.n": 1024, "evaluation.samples": 128, "rule.length": 36, "rule.group": 6}
    return Experiment(
        load_settings("demo", {**change, **small, "training": {"device": "cuda", "batch": 64, **training}})
    )


def weights_after(made: Experiment, first: int, last: int) -> torch.Tensor:
    """The weights after some steps."""
    step = made.make_step()
    for number in range(first, last + 1):
        step(number)
    return torch.cat([parameter.detach().flatten() for parameter in made.network.parameters()])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_replayed_steps_are_the_steps_and_a_resumed_run_is_the_same_run(precision: str) -> None:
    whole, called, first, second = (
        experiment(precision=precision, capture=capture) for capture in (True, False, True, True)
    )
    replayed, plain = weights_after(whole, 1, 24), weights_after(called, 1, 24)
    assert float((replayed - plain).norm() / plain.norm()) < 1e-3
    weights_after(first, 1, 12)
    second.load_state(12, -1, {name: value.clone() for name, value in first.state().items()})
    assert torch.equal(weights_after(second, 13, 24), replayed)


def test_replayed_samples_are_the_samples_of_the_current_weights() -> None:
    made = experiment()
    made.network.eval()
    with torch.no_grad():
        fresh = made.sample().clone()
        assert torch.equal(made.sample(), fresh)
    weights_after(made, 1, 20)
    made.network.eval()  # steps are made in training mode
    with torch.no_grad():
        replayed = made.sample().clone()
        made.samplers.clear()
        assert torch.equal(made.sample(), replayed) and not torch.equal(replayed, fresh)


def test_nearest_images_on_the_gpu_are_those_on_the_cpu() -> None:
    """Products of 8-bit integers have conditions on sizes there, which padding meets."""
    for count, samples, shape in ((50, 3, (3, 32, 32)), (9001, 40, (1, 17, 19)), (7, 1, (1, 8, 8))):
        generator = torch.Generator().manual_seed(count)
        images, given = (torch.randint(0, 256, (n, *shape), generator=generator) for n in (count, samples))
        here, there = (ImageNeighbours(images.to(device)).two_nearest(given.to(device)) for device in ("cpu", "cuda"))
        assert torch.equal(here.row, there.row.cpu())
        torch.testing.assert_close(here.distance, there.distance.cpu(), rtol=1e-15, atol=0)  # a GPU divides otherwise
