"""Losses at fixed noises: equal at every call and to a slow computation, without a trace, and with a gap that opens."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from diffusers import DDPMScheduler, UNet2DConditionModel, UNet2DModel

import twoclocks as tc
from twoclocks.core.seeds import torch_stream
from twoclocks.integrations.denoising_loss import DenoisingLoss, denoising_loss
from twoclocks.integrations.watcher import Watcher

SHAPE = (3, 8, 8)


def small_unet(**options: Any) -> UNet2DModel:
    torch.manual_seed(0)
    blocks = {"down_block_types": ("DownBlock2D",), "up_block_types": ("UpBlock2D",), "block_out_channels": (16,)}
    return UNet2DModel(8, layers_per_block=1, norm_num_groups=8, attention_head_dim=8, **blocks, **options)


def images(number: int, seed: int) -> torch.Tensor:
    return torch.randn((number, *SHAPE), generator=torch.Generator().manual_seed(seed))


def test_the_losses_are_the_same_at_every_call_and_leave_no_trace() -> None:
    model, losses = small_unet(dropout=0.5).train(), DenoisingLoss(DDPMScheduler(), images(5, 1), images(3, 2))
    model.mid_block.eval()  # a part that its owner keeps in eval mode
    modes = [module.training for module in model.modules()]
    before, first = torch.get_rng_state(), losses(model)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(7)
    again = losses(model)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    assert [module.training for module in model.modules()] == modes and not first[0].requires_grad
    assert (
        first[0].shape == (5,) and first[1].shape == (3,) and losses.last == tuple(float(one.mean()) for one in first)
    )


def test_the_batch_size_and_other_samples_do_not_change_the_loss_of_a_sample() -> None:
    model, train, held_out = small_unet(), images(5, 1), images(3, 2)
    whole = DenoisingLoss(DDPMScheduler(), train, held_out)(model)
    parts = DenoisingLoss(DDPMScheduler(), train[:4], held_out, batch=2)(model)
    assert torch.allclose(whole[0][:4], parts[0], rtol=1e-5) and torch.allclose(whole[1], parts[1], rtol=1e-5)
    other = DenoisingLoss(DDPMScheduler(), train, train, seed=1)(model)
    assert not torch.allclose(whole[0], other[0], rtol=1e-3) and not torch.allclose(other[0], other[1], rtol=1e-3)


@pytest.mark.parametrize("kind", ["epsilon", "v_prediction", "sample"])
def test_the_loss_equals_a_slow_computation(kind: str) -> None:
    torch.manual_seed(0)
    model = UNet2DConditionModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        down_block_types=("CrossAttnDownBlock2D",),
        up_block_types=("CrossAttnUpBlock2D",),
        block_out_channels=(16,),
        layers_per_block=1,
        norm_num_groups=8,
        cross_attention_dim=12,
        attention_head_dim=8,
    ).eval()
    clean, texts = images(3, 1), torch.randn(3, 5, 12)
    scheduler = DDPMScheduler(num_train_timesteps=40, prediction_type=kind)
    found, _ = DenoisingLoss(scheduler, (clean, texts), (clean, texts), levels=4)(model)
    betas = [1e-4 + (0.02 - 1e-4) * time / 39 for time in range(40)]
    for row in range(3):
        noises = torch.randn(4, *SHAPE, generator=torch_stream(0, "denoising loss, train", row))
        total = 0.0
        for level, time in enumerate((5, 15, 25, 35)):  # the middles of four parts of 0 … 39
            kept = math.prod(1 - beta for beta in betas[: time + 1])
            noisy = math.sqrt(kept) * clean[row] + math.sqrt(1 - kept) * noises[level]
            velocity = math.sqrt(kept) * noises[level] - math.sqrt(1 - kept) * clean[row]
            target = {"epsilon": noises[level], "v_prediction": velocity, "sample": clean[row]}[kind]
            with torch.no_grad():
                predicted = model(noisy[None], torch.tensor(time), texts[row : row + 1]).sample[0]
            total += float(((predicted - target) ** 2).mean()) / 4
        assert math.isclose(float(found[row]), total, rel_tol=1e-4)


def test_the_gap_opens_where_a_model_overfits_two_images() -> None:
    model, scheduler, train, held_out = small_unet(), DDPMScheduler(), images(2, 1), images(8, 2)
    optimizer, losses = torch.optim.AdamW(model.parameters(), 4e-3), DenoisingLoss(scheduler, train, held_out)
    settings = tc.clocks.ClockSettings(gap_threshold=0.1, sustain=2)
    monitor = tc.Monitor(train=train, held_out=held_out, copies="ratio", settings=settings, policy="never")
    watcher = Watcher(monitor, lambda model: held_out, 40, first=1, losses=losses)
    for step in range(1, 161):
        stream = torch.Generator().manual_seed(step)
        times, noise = torch.randint(1_000, (8,), generator=stream), torch.randn((8, *SHAPE), generator=stream)
        loss = denoising_loss(model, scheduler, train.repeat(4, 1, 1, 1), noise, times).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        watcher.step(step, model)
    gaps, clocks = [look["gap"] for look in monitor.state()["looks"]], monitor.clocks()
    assert abs(gaps[0]) < 0.1 < 0.3 < gaps[-1] and clocks.gap is not None and clocks.gap.status == "observed"
    assert watcher.decision is not None and watcher.decision.as_dict()["tau_gap"] == clocks.gap.upper
    assert watcher.decision.loss_gap == gaps[-1] == pytest.approx(losses.last[1] - losses.last[0])  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"levels": 0}, "levels: 0 is not allowed; use an integer from 1 to 1000, the scheduler's training times"),
        ({"batch": 0}, "batch: 0 is not allowed; use an integer of at least 1"),
        ({"train": images(0, 0)}, "train: torch.float32 of shape (0, 3, 8, 8); give at least one sample, as floats"),
        (
            {"held_out": (images(3, 0), torch.zeros(2, 4, 4))},
            "held_out: 3 samples with 2 conditions; give one condition per sample",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line(change: dict[str, Any], line: str) -> None:
    with pytest.raises(tc.UserError) as caught:
        DenoisingLoss(DDPMScheduler(), **{"train": images(2, 0), "held_out": images(2, 0)} | change)
    assert str(caught.value) == line


def test_an_unknown_prediction_type_is_named() -> None:
    scheduler = DDPMScheduler(prediction_type="flow")
    with pytest.raises(tc.UserError, match=r"scheduler: 'flow' is not allowed; use the prediction_type epsilon"):
        DenoisingLoss(scheduler, images(2, 0), images(2, 0))(small_unet())
