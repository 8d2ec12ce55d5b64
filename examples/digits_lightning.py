"""A diffusion model of small digits in Lightning, whose Trainer stops when the model begins to copy.

python examples/digits_lightning.py --out digits        (--smoke: seconds)
"""

import argparse
from itertools import pairwise
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

import twoclocks as tc
from twoclocks.integrations.lightning import MonitorCallback


class Diffusion(LightningModule):
    """A small denoiser with the preconditioning of EDM."""

    def __init__(self, width: int, learning_rate: float) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.layers = nn.Sequential(
            *(nn.Linear(65, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()),
            *(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 64)),
        )

    def forward(self, noisy: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        scale = (sigma**2 + 1).sqrt()
        inside = self.layers(torch.cat([noisy / scale, sigma.log() / 4], 1))
        return noisy / scale**2 + inside * sigma / scale

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        clean = batch.flatten(1)
        sigma = (1.2 * torch.randn(len(clean), 1, device=self.device) - 1).exp()
        error = self(clean + sigma * torch.randn_like(clean), sigma) - clean
        return ((sigma**2 + 1) / sigma**2 * error**2).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)


def sample(model: Diffusion, n: int = 256, levels: int = 24) -> torch.Tensor:
    """Images from noise, by Euler steps along the probability flow."""
    sigmas = torch.cat([torch.logspace(1, -2, levels), torch.zeros(1)]).to(model.device)
    x = sigmas[0] * torch.randn(n, 64, device=model.device)
    for sigma, following in pairwise(sigmas):
        clean = model(x, sigma.expand(n, 1))
        x = clean + (x - clean) * following / sigma
    return x.reshape(n, 8, 8)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", type=Path, default=Path("digits"))
parser.add_argument("--smoke", action="store_true", help="four images and a small network")
asked = parser.parse_args()
n, width, rate, steps, every = (4, 256, 3e-3, 1_500, 100) if asked.smoke else (50, 256, 1e-3, 60_000, 1_000)
torch.manual_seed(0)
images = torch.as_tensor(load_digits().images, dtype=torch.float32) / 8 - 1  # (1797, 8, 8)
images = images[torch.randperm(len(images))]
monitor = tc.Monitor(train=images[:n], held_out=images[n:])
callback = MonitorCallback(monitor, sample, every)
loader = DataLoader(images[:n], batch_size=64, sampler=RandomSampler(range(n), True, 6_400))
how = {"enable_checkpointing": False, "enable_progress_bar": False, "logger": False, "default_root_dir": asked.out}
trainer = Trainer(max_steps=steps, callbacks=[EMAWeightAveraging(decay=0.99), callback], **how)
trainer.fit(Diffusion(width, rate), loader)
print(f"stop: {callback.decision.stop} at step {trainer.global_step}; {callback.decision.reason}")
asked.out.mkdir(parents=True, exist_ok=True)
monitor.gallery(asked.out / "copies.png")
monitor.report(asked.out / "page.html")
