"""Training and held-out loss of a diffusers U-Net at fixed noises and noise levels, for the gap between them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.seeds import torch_stream
from twoclocks.integrations.preserve import sampling

Conditioned = tuple[Tensor, Tensor]  # clean images or latents (n, channels, height, width), conditions (n, tokens, d)
Set = Tensor | Conditioned


def denoising_loss(
    model: Any, scheduler: Any, clean: Tensor, noise: Tensor, times: Tensor, condition: Tensor | None = None
) -> Tensor:
    """Squared error of the model's prediction, averaged over the entries of each sample: (n,).

    ``scheduler`` is a noise scheduler of diffusers; its ``prediction_type`` says whether the model predicts the
    noise (epsilon), the velocity (v_prediction, as Stable Diffusion 2.1 for 768 pixels does) or the clean sample.
    """
    inputs = (scheduler.add_noise(clean, noise, times), times, *(() if condition is None else (condition,)))
    kind = scheduler.config.prediction_type
    if kind == "epsilon":
        target = noise
    elif kind == "v_prediction":
        target = scheduler.get_velocity(clean, noise, times)
    elif kind == "sample":
        target = clean
    else:
        raise SettingError("scheduler", kind, "use the prediction_type epsilon, v_prediction or sample")
    predicted: Tensor = model(*inputs).sample
    return (predicted.float() - target.float()).square().flatten(1).mean(1)


class DenoisingLoss:
    """Denoising losses of training and held-out samples, one per sample, with the same noises at every call.

    Give it to an adapter as ``losses=``. ``train`` and ``held_out`` are clean images or latents (n, channels, height,
    width), or pairs of them with conditions (n, tokens, width), such as embedded captions. Each sample is corrupted
    at ``levels`` times, the middles of equal parts of the scheduler's training times. The noise of a sample depends
    on (``seed``, its set, its place in it) only: neither on ``batch`` nor on the device. The model is in eval mode,
    without gradients; no random generator of the caller is used.
    """

    def __init__(
        self, scheduler: Any, train: Set, held_out: Set, *, levels: int = 8, batch: int = 64, seed: int = 0
    ) -> None:
        self.scheduler, self.batch, self.seed = scheduler, batch, seed
        self.train, self.held_out = checked(train, "train"), checked(held_out, "held_out")
        known = scheduler.config.num_train_timesteps
        if not 1 <= levels <= known:
            raise SettingError("levels", levels, f"use an integer from 1 to {known}, the scheduler's training times")
        if batch < 1:
            raise SettingError("batch", batch, "use an integer of at least 1")
        self.last: tuple[float, float] | None = None  # mean training and held-out loss of the last call
        self.times = torch.tensor([(2 * level + 1) * known // (2 * levels) for level in range(levels)])

    def __call__(self, model: Any) -> tuple[Tensor, Tensor]:
        """Losses of the training samples and of the held-out samples, each averaged over the levels: (n,), (m,)."""
        with sampling(model, None, None) as chosen:
            train = self.losses(chosen, *self.train, "train")
            held_out = self.losses(chosen, *self.held_out, "held_out")
        self.last = float(train.mean()), float(held_out.mean())
        return train, held_out

    def losses(self, model: Any, clean: Tensor, condition: Tensor | None, purpose: str) -> Tensor:
        """The loss of each sample of one set, (n,) on the CPU."""
        like = next(model.parameters())
        found = torch.zeros(len(clean))
        for begin in range(0, len(clean), self.batch):
            rows = slice(begin, min(begin + self.batch, len(clean)))
            ours = clean[rows].to(like)
            given = None if condition is None else condition[rows].to(like)
            noises = torch.stack([self.noise(clean.shape[1:], purpose, row) for row in range(rows.start, rows.stop)])
            for level, time in enumerate(self.times):
                times = time.repeat(len(ours)).to(like.device)
                loss = denoising_loss(model, self.scheduler, ours, noises[:, level].to(like), times, given)
                found[rows] += loss.cpu() / len(self.times)
        return found

    def noise(self, shape: torch.Size, purpose: str, row: int) -> Tensor:
        """The noises of one sample at all levels, (levels, *shape)."""
        stream = torch_stream(self.seed, f"denoising loss, {purpose}", row)
        return torch.randn((len(self.times), *shape), generator=stream)


def checked(given: Set, name: str) -> tuple[Tensor, Tensor | None]:
    """Clean samples with their conditions, or None in the place of these; UserError if they do not match."""
    clean, condition = given if isinstance(given, tuple) else (given, None)
    if not len(clean) or not clean.is_floating_point():
        raise UserError(f"{name}: {clean.dtype} of shape {tuple(clean.shape)}; give at least one sample, as floats")
    if condition is not None and len(condition) != len(clean):
        raise UserError(f"{name}: {len(clean)} samples with {len(condition)} conditions; give one condition per sample")
    return clean, condition
