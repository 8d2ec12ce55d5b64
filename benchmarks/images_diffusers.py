"""The image U-Net beside the same network in diffusers' own training loop and sampler.

    python benchmarks/images_diffusers.py --out results/images_diffusers.json                # a GPU
    python benchmarks/images_diffusers.py --device cpu --out results/images_diffusers_cpu.json

Both networks have the same layers and number of weights. The loop is that of diffusers' example of unconditional
training (``add_noise``, mean squared error, clipped gradients, AdamW), the sampler its DDIM scheduler, with as many
levels as ours. All are measured in turns; ``torch.compile`` has run before. Rows that are in --out already are not
measured again, so an interrupted benchmark goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel
from torch import Tensor, nn
from torch.nn import functional

from twoclocks import data
from twoclocks.bench.conditions import our_step, with_autocast, with_precision
from twoclocks.bench.steps import ceiling
from twoclocks.bench.timing import Work, side_by_side
from twoclocks.models.base import parameter_count
from twoclocks.models.unet2d import UNet2dSettings
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.runs.operations import step_operations
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

Row = dict[str, Any]
PARTS = ("steps", "samples")
SMALL_ROWS = {"evaluation.samples": 512, "evaluation.loss_rows": 64}
WORKLOADS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "cpu": {"U-Net 24, digits of 8×8, batch 32": ("images-small", {})},
    "cuda": {
        "U-Net 64, digits of 8×8, batch 64": ("p2-digits", {"model.variance": False, "objective.variance": "fixed"}),
        "U-Net 256, pixels of 32×32, batch 128": (
            "p2-cifar10",
            {"model.variance": False, "objective.variance": "fixed", "objective.sampler_levels": 50, "data.n": 512},
        ),
    },
}


def twin(settings: UNet2dSettings, shape: tuple[int, ...]) -> UNet2DModel:
    """The same network in diffusers."""
    widths = [settings.width * multiplier for multiplier in settings.multipliers]
    attends = [height in settings.attention for height in settings.heights(shape)]
    return UNet2DModel(
        sample_size=shape[1],
        in_channels=shape[0],
        out_channels=shape[0],
        down_block_types=tuple("AttnDownBlock2D" if one else "DownBlock2D" for one in attends),
        up_block_types=tuple("AttnUpBlock2D" if one else "UpBlock2D" for one in reversed(attends)),
        block_out_channels=tuple(widths),
        layers_per_block=settings.blocks,
        attention_head_dim=widths[-1] // settings.heads,
        norm_num_groups=math.gcd(32, *widths),
        attn_norm_num_groups=math.gcd(32, widths[-1]),
        resnet_time_scale_shift="scale_shift",
        dropout=settings.dropout,
    )


def training_step(model: nn.Module, call: Any, rows: Tensor, batch: int, rate: float) -> Work:
    """One step of diffusers' example; ``call`` is the model, or its compiled form."""
    scheduler, optimizer = DDPMScheduler(1000), torch.optim.AdamW(model.parameters(), lr=rate)

    def step() -> None:
        clean = rows[torch.randint(len(rows), (batch,), device=rows.device)]
        noise = torch.randn_like(clean)
        levels = torch.randint(1000, (batch,), device=rows.device)
        noisy = scheduler.add_noise(clean, noise, levels)
        loss = functional.mse_loss(call(noisy, levels).sample.float(), noise)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def sampling(call: Any, noise: Tensor, levels: int) -> Work:
    scheduler = DDIMScheduler(1000)
    scheduler.set_timesteps(levels)

    @torch.no_grad()
    def sample() -> None:
        x = noise
        for level in scheduler.timesteps:
            x = scheduler.step(call(x, level).sample.float(), level, x).prev_sample

    return sample


def loops(work: Any, precisions: Sequence[str]) -> dict[str, Work]:
    """The work under the precisions in which people run it."""
    forms = {
        "float32": lambda: work,
        "TF32": lambda: with_precision(work, "high"),
        "bfloat16": lambda: with_autocast(work),
    }
    return {precision: forms[precision]() for precision in precisions}


def prepare(label: str, device: str, folder: Path) -> Experiment:
    """Our run of a workload; the larger one has pixels without a meaning, which take as long as others."""
    preset, change = WORKLOADS[device][label]
    if preset == "p2-cifar10":
        pixels = np.random.default_rng(0).integers(0, 256, (2000, 32, 32, 3), dtype=np.uint8)
        np.save(folder / "pixels.npy", pixels)
        data.pack(folder / "pixels.npy", folder / "pixels.safetensors")
        change = {**change, "rule.file": str(folder / "pixels.safetensors")}
    return Experiment(load_settings(preset, {**SMALL_ROWS, **change, "training.device": device}))


def compare(experiment: Experiment, part: str, device: str, precisions: Sequence[str], seconds: float) -> Row:
    """Calls per second of our step, or of our sampler, and of diffusers', as it is and compiled."""
    settings = experiment.settings
    assert isinstance(settings.model, UNet2dSettings) and settings.encoding is not None
    model = twin(settings.model, settings.encoding.shape(settings.rule)).to(device)
    training, noise = settings.training, experiment.noise
    levels = len(experiment.objective.sampler_sigmas()) - 1  # type: ignore[arg-type]
    rows = experiment.encode(experiment.train_rows)
    works: dict[str, Work] = {"ours": our_step(experiment) if part == "steps" else experiment.sample}
    for name, call in {"diffusers": model, "diffusers, compiled": torch.compile(model, dynamic=False)}.items():
        if part == "steps":
            work = training_step(model, call, rows, training.batch, training.learning_rate)
        else:
            work = sampling(call, noise, levels)
        works |= {f"{name}, {precision}": loop for precision, loop in loops(work, precisions).items()}
    for name, work in works.items():
        print(f"{part}: {name}: first call", flush=True)
        work()  # compiles
    rates = side_by_side(works, device, seconds)
    row = {
        "precision": training.precision,
        "parameters": {"ours": parameter_count(experiment.network), "diffusers": parameter_count(model)},
        "per_second": {name: round(value, 3) for name, value in rates.items()},
        "over_best": round(rates["ours"] / max(value for name, value in rates.items() if name != "ours"), 2),
    }
    if part == "steps":
        return row | {"operations_per_second": rates["ours"] * step_operations(settings)}
    return row | {"samples": len(noise), "levels": levels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=float, default=6.0, help="time of each loop")
    parser.add_argument("--precision", nargs="+", choices=["TF32", "bfloat16"], default=["TF32", "bfloat16"])
    asked = parser.parse_args()
    precisions = asked.precision if asked.device == "cuda" else ["float32"]
    record = json.loads(asked.out.read_text("utf-8")) if asked.out.exists() else {}
    top = record.get("ceiling") or ceiling(asked.device)
    rows: list[Row] = record.get("rows", [])
    for label, part in itertools.product(WORKLOADS[asked.device], PARTS):
        what = {"work": label, "part": part}
        if any(what.items() <= row.items() for row in rows):
            continue
        with tempfile.TemporaryDirectory() as name:
            found = compare(prepare(label, asked.device, Path(name)), part, asked.device, precisions, asked.seconds)
        rows.append(what | found)
        if part == "steps":
            rows[-1]["of_ceiling"] = round(found["operations_per_second"] / top["operations_per_second"], 3)
        print(rows[-1], flush=True)
        origin = {"commit": commit(), "versions": versions(), "machine": machine(asked.device)}
        only = f" --precision {' '.join(precisions)}" if asked.device == "cuda" else ""
        command = f"python benchmarks/images_diffusers.py --device {asked.device}{only} --out results/{asked.out.name}"
        write_json(asked.out, {"command": command, **origin, "ceiling": top, "rows": rows})


if __name__ == "__main__":
    main()
