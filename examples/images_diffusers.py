"""Unconditional diffusion on a folder of images with diffusers, stopped when the model begins to copy them.

python examples/images_diffusers.py --folder IMAGES --out images        (--smoke: seconds, on images that it draws)
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from diffusers import DDIMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel
from PIL import Image
from torch.utils.data import DataLoader, RandomSampler

import twoclocks as tc
from twoclocks.integrations.accelerate import MonitorHook


def draw_images(folder: Path) -> None:
    """Writes 400 images of four squares in random colours."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(400):
        pixels = np.kron(rng.integers(0, 256, (2, 2, 3)), np.ones((4, 4, 1)))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:03}.png")


def read_images(folder: Path, side: int) -> torch.Tensor:
    """All images of a folder, (n, 3, side, side) from -1 to 1."""
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
    pixels = [np.asarray(Image.open(path).convert("RGB").resize((side, side))) for path in files]
    return torch.as_tensor(np.stack(pixels)).permute(0, 3, 1, 2) / 127.5 - 1


def sample(model: UNet2DModel, n: int = 32) -> torch.Tensor:
    noise = DDIMScheduler()
    noise.set_timesteps(15)
    x = torch.randn(n, 3, model.config.sample_size, model.config.sample_size, device=model.device)
    for time in noise.timesteps:
        x = noise.step(model(x, time).sample, time, x).prev_sample
    return x


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--folder", type=Path, default=Path("images"))
parser.add_argument("--out", type=Path, default=Path("diffusers"))
parser.add_argument("--smoke", action="store_true", help="small images, drawn into the folder first; train on two")
asked = parser.parse_args()
asked.out.mkdir(parents=True, exist_ok=True)
if asked.smoke:
    draw_images(asked.folder)
side, widths, steps, every = (8, (32, 64), 400, 30) if asked.smoke else (64, (64, 128, 128, 256), 100_000, 1_000)
images = read_images(asked.folder, side)
n = 2 if asked.smoke else int(0.8 * len(images))  # the others are held out
torch.manual_seed(0)
accelerator = Accelerator()
down, up = ["DownBlock2D"] * len(widths), ["UpBlock2D"] * len(widths)
unet = UNet2DModel(side, down_block_types=down, up_block_types=up, block_out_channels=widths, layers_per_block=1)
loader = DataLoader(images[:n], 16, sampler=RandomSampler(range(n), replacement=True, num_samples=16 * steps))
unet, optimizer, loader = accelerator.prepare(unet, torch.optim.AdamW(unet.parameters(), 2e-3), loader)
ema = EMAModel(unet.parameters(), decay=0.9 if asked.smoke else 0.9999, foreach=True)
noise = DDIMScheduler()
monitor = tc.Monitor(train=images[:n], held_out=images[n:])
hook = MonitorHook(monitor, sample, every, accelerator=accelerator, model=unet, ema=ema)
for step, clean in enumerate(loader, 1):
    times = torch.randint(1_000, (len(clean),), device=clean.device)
    added = torch.randn_like(clean)
    loss = (unet(noise.add_noise(clean, added, times), times).sample - added).square().mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    ema.step(unet.parameters())
    if hook.step(step, last=step == steps) and hook.stop:
        break
print(f"stop: {hook.stop} at step {step}; {hook.decision.reason}")
monitor.gallery(asked.out / "copies.png")
monitor.report(asked.out / "page.html")
