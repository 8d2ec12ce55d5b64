"""A diffusion model of small digits in plain PyTorch that stops when it begins to copy its training images.

python examples/digits_pytorch.py --out digits        (about a minute on a CPU; --smoke: seconds)
"""

import argparse
from itertools import pairwise
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import twoclocks as tc
from twoclocks.integrations.pytorch import MonitorHook


class Denoiser(nn.Module):
    """A small network with the preconditioning of EDM: returns the clean image from a noisy one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(65, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()),
            *(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 64)),
        )

    def forward(self, noisy: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        scale = (sigma**2 + 1).sqrt()
        inside = self.layers(torch.cat([noisy / scale, sigma.log() / 4], 1))
        return noisy / scale**2 + inside * sigma / scale


def loss_of(model: Denoiser, clean: torch.Tensor) -> torch.Tensor:
    sigma = (1.2 * torch.randn(len(clean), 1) - 1).exp()
    error = model(clean + sigma * torch.randn_like(clean), sigma) - clean
    return ((sigma**2 + 1) / sigma**2 * error**2).mean()


def sample(model: Denoiser, n: int, levels: int = 24) -> torch.Tensor:
    """Images from noise, by Euler steps along the probability flow."""
    sigmas = torch.cat([torch.logspace(1, -2, levels), torch.zeros(1)])
    x = sigmas[0] * torch.randn(n, 64)
    for sigma, following in pairwise(sigmas):
        clean = model(x, sigma.expand(n, 1))
        x = clean + (x - clean) * following / sigma
    return x.reshape(n, 8, 8)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", type=Path, default=Path("digits"))
parser.add_argument("--smoke", action="store_true", help="four images and a small network")
asked = parser.parse_args()
n, width, steps, every = (4, 256, 1_500, 100) if asked.smoke else (50, 256, 60_000, 1_000)

torch.manual_seed(0)
images = torch.as_tensor(load_digits().images, dtype=torch.float32) / 8 - 1  # (1797, 8, 8)
images = images[torch.randperm(len(images))]
train, held_out = images[:n], images[n:]
model = Denoiser(width)
average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3 if asked.smoke else 1e-3)
monitor = tc.Monitor(train=train, held_out=held_out)
hook = MonitorHook(monitor, lambda model: sample(model, 256), every, model=model, ema=average)
for step in range(1, steps + 1):
    optimizer.zero_grad()
    loss_of(model, train[torch.randint(n, (64,))].flatten(1)).backward()
    optimizer.step()
    average.update_parameters(model)
    hook.step(step, last=step == steps)
    if hook.stop:
        break
print(f"stop: {hook.stop} at step {step}; {hook.decision.reason}")
asked.out.mkdir(parents=True, exist_ok=True)
monitor.gallery(asked.out / "copies.png")
monitor.report(asked.out / "page.html")
