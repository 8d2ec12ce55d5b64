"""EDM with the U-Net of images: preconditioning on real digits, training, sampling and dissection, grey and RGB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import TINY
from torch import Tensor

from twoclocks import models
from twoclocks.core.config import to_mapping
from twoclocks.dissection import dissect_run
from twoclocks.dissection.execution import choose_views
from twoclocks.objectives import EDM, sample
from twoclocks.runs import load_settings, run
from twoclocks.testing.contracts import randomised

UNET: dict[str, Any] = {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": [4], "heads": 2}
SPREAD = 0.7518  # standard deviation of the pixels of digits in [−1, 1]


def digits(channels: int) -> Tensor:
    """The real digits as (n, channels, 8, 8) in [−1, 1]; RGB: each in a colour of its own."""
    datasets = pytest.importorskip("sklearn.datasets", reason="needs the extra images")
    grey = torch.from_numpy(np.rint(datasets.load_digits().images * 255 / 16)).float()[:, None] / 255  # as packed
    colours = torch.rand(len(grey), channels, 1, 1, generator=torch.Generator().manual_seed(0))
    return 2 * (grey * colours if channels > 1 else grey) - 1


def test_sigma_data_of_digits_gives_inputs_and_targets_of_variance_1_at_every_level() -> None:
    """What c_in, c_skip and c_out are for. The default 0.5 is that of CIFAR-10, too small for grey digits."""
    clean = digits(1)
    assert float(clean.std()) == pytest.approx(SPREAD, abs=1e-4)
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(1))
    for sigma in (0.002, 0.1, 0.5, 2.0, 80.0):
        log_sigma = torch.full((len(clean),), sigma).log()
        shown, _, target = EDM(sigma_data=SPREAD).precondition(clean, log_sigma, noise)
        assert float(shown.var()) == pytest.approx(1, abs=0.02), sigma
        assert float(target.var()) == pytest.approx(1, abs=0.02), sigma
    _, _, target = EDM().precondition(clean, torch.full((len(clean),), 80.0).log(), noise)
    assert float(target.var()) == pytest.approx((SPREAD / 0.5) ** 2, rel=0.02)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_loss_is_the_weighted_error_of_the_preconditioned_denoiser(channels: int) -> None:
    """λ(σ)·mean‖c_skip y + c_out F(c_in y, ln σ / 4) − x‖², written out, for a U-Net on real digits."""
    edm, clean = EDM(sigma_data=SPREAD), digits(channels)[:6].double()
    network = randomised(
        models.create(
            "unet2d",
            **UNET,
        ),
        tuple(clean.shape[1:]),
        256,
    ).double()
    log_sigma, noise = edm.draw(clean, torch.Generator().manual_seed(2))
    sigma = log_sigma.exp()
    s, data = sigma[:, None, None, None], SPREAD**2
    noisy = clean + s * noise
    raw = network(noisy / (s**2 + data).sqrt(), sigma.log() / 4)
    denoised = data / (s**2 + data) * noisy + s * SPREAD / (s**2 + data).sqrt() * raw
    weight = (sigma**2 + data) / (sigma * SPREAD) ** 2
    expected = weight * (denoised - clean).square().flatten(1).mean(dim=1)
    assert torch.allclose(edm.loss_given(network, clean, log_sigma, noise), expected, rtol=1e-9)
    assert torch.allclose(edm.denoiser(network)(noisy, sigma), denoised, rtol=1e-9)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_unet_learns_digits_and_samples_them(channels: int) -> None:
    """After 60 steps it denoises held-out digits better than c_skip alone, and its samples are nearer to them."""
    edm, images = EDM(sigma_data=SPREAD, sampler_steps=8), digits(channels)
    train, held_out = images[:512], images[512:768]
    torch.manual_seed(0)
    network = models.create("unet2d", **UNET).build(tuple(images.shape[1:]), 256)
    optimizer, generator = torch.optim.Adam(network.parameters(), lr=5e-3), torch.Generator()

    def measured() -> tuple[float, float]:
        """Loss of held-out digits, and the mean distance of 32 samples to their nearest held-out digit."""
        with torch.no_grad():
            loss = edm.loss(network, held_out, generator.manual_seed(0)).mean()
            noise = edm.draw_noise(32, tuple(images.shape[1:]), generator.manual_seed(99))
            samples = sample(edm, network, noise)
        assert samples.shape == (32, channels, 8, 8)
        return float(loss), float(torch.cdist(samples.flatten(1), held_out.flatten(1)).amin(dim=1).mean())

    loss, distance = measured()  # a fresh network returns zero: this is c_skip alone
    for step in range(60):
        batch = train[torch.randint(len(train), (32,), generator=generator.manual_seed(1 + step))]
        optimizer.zero_grad()
        edm.loss(network, batch, generator).mean().backward()
        optimizer.step()
    loss_after, distance_after = measured()
    assert loss_after < 0.75 * loss and distance_after < 0.9 * distance


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "encoding", "channels"),
    [
        ({"name": "parity", "length": 16, "group": 2}, "sign", 1),
        ({"name": "free", "length": 16, "alphabet": 3}, "one_hot", 3),
    ],
)
def test_a_run_trains_samples_and_is_dissected(
    rule: dict[str, Any], encoding: str, channels: int, tmp_path: Path
) -> None:
    changed = {
        **TINY,
        "rule": rule,
        "encoding": {"name": encoding},
        "objective": {"name": "edm", "sampler_steps": 6},
        "model": {"name": "unet2d", **UNET, "attention": [2]},
        "training": {"steps": 40, "batch": 16, "learning_rate": 5e-3},
        "evaluation": {"samples": 30, "steps": [0, 40], "loss_rows": 16, "keep_samples": 20},
        "clocks": {"memory_threshold": 0.5, "sustain": 1},
    }
    settings = load_settings("demo", changed)
    assert settings.encoding is not None and settings.encoding.shape(settings.rule)[0] == channels
    assert to_mapping(settings)["model"]["name"] == "unet2d"
    done = run(settings, tmp_path / "run")
    small = {"spectrum": {"levels": 4, "rows": 8}, "trajectories": {"noises": 4}}
    found = dissect_run(done, choose_views(list(small), small)).infos
    loss = np.asarray(found["spectrum"].loss)  # type: ignore[attr-defined] # (steps, splits, levels)
    assert np.isfinite(loss).all() and loss[-1, 0].mean() < loss[0, 0].mean()  # on the four training rows
