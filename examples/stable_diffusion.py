"""Fine-tunes Stable Diffusion on captioned images, and stops when its generations begin to copy them.

accelerate launch examples/stable_diffusion.py --model DIR --images FOLDER --descriptor sscd_disc_mixup.torchscript.pt
python examples/stable_diffusion.py --smoke        (tiny sizes, images that it draws; under a minute on a CPU)

FOLDER has metadata.jsonl with a file_name and a text per line. The same command again continues an interrupted run.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from diffusers import DDIMScheduler, DDPMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from diffusers.utils import convert_state_dict_to_diffusers
from peft import LoraConfig, get_peft_model_state_dict
from PIL import Image, ImageOps

import twoclocks as tc
from twoclocks.integrations.accelerate import MonitorHook
from twoclocks.integrations.denoising_loss import DenoisingLoss, denoising_loss
from twoclocks.monitor.descriptors import load_descriptor


class StandIn(tc.monitor.Correlation):
    """Correlation of pixels, where no descriptor is given: it misses copies that are shifted, cut or redrawn."""

    @property
    def name(self) -> str:
        return f"{super().name} (of pixels, a stand-in for SSCD)"


def arguments() -> argparse.Namespace:
    """The command line; the defaults are the settings of the paper (P2, App. C) where it states them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", type=Path, help="folder of a Stable Diffusion pipeline, as save_pretrained writes it")
    add("--images", type=Path, help="folder of images with metadata.jsonl: file_name and text of each")
    add("--out", type=Path, default=Path("stable_diffusion"), help="folder of checkpoints, page and gallery")
    add("--descriptor", type=Path, help="TorchScript file of SSCD; loading it runs code that is in it")
    add("--lora", type=int, metavar="RANK", help="train adapters of this rank in place of the whole U-Net")
    add("--size", type=int, default=256, help="pixels per side, to which images are cut (default: %(default)s)")
    add("--held-out", type=int, default=1_024, help="last images, not trained on (default: %(default)s)")
    add("--train", type=int, help="first images, trained on (default: all that are not held out)")
    add("--batch", type=int, default=16, help="images per step and process (default: %(default)s)")
    add("--rate", type=float, default=5e-6, help="learning rate after the warm-up (default: %(default)s)")
    add("--warmup", type=int, default=5_000, help="steps in which the rate rises (default: %(default)s)")
    add("--steps", type=int, default=262_144, help="most steps (default: %(default)s)")
    add("--every", type=int, default=8_192, help="steps between looks (default: %(default)s)")
    add("--generations", type=int, default=200, help="per look, of training captions (default: %(default)s)")
    add("--guidance", type=float, default=7.5, help="guidance scale of generations (default: %(default)s)")
    add("--sampling-steps", type=int, default=50, help="per generation (default: %(default)s)")
    add("--smoke", action="store_true", help="tiny sizes, with a pipeline and images that are made first")
    if parser.parse_args().smoke:
        from tiny_pipeline import SMOKE, write_inputs

        parser.set_defaults(**SMOKE)
    asked = parser.parse_args()
    if asked.smoke and asked.model is asked.images is None:
        asked.model, asked.images = write_inputs(asked.out)
    if asked.model is None or asked.images is None:
        parser.error("--model, --images: give both folders, or --smoke for an example")
    if not (asked.model / "model_index.json").is_file():
        sys.exit(f"--model: {asked.model} has no model_index.json; give a folder that save_pretrained wrote")
    return asked


def read_images(folder: Path, size: int) -> tuple[np.ndarray, list[str]]:
    """Images (n, 3, size, size) of integers from 0 to 255, and their captions."""
    file = folder / "metadata.jsonl"
    try:
        entries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        names, captions = ([str(one[key]) for one in entries] for key in ("file_name", "text"))
    except (ValueError, KeyError, TypeError):
        sys.exit(f'{file}: give one line per image: {{"file_name": "1.png", "text": "a caption"}}')
    images = (Image.open(folder / name).convert("RGB") for name in names)
    return np.stack([np.asarray(ImageOps.fit(one, (size, size))).transpose(2, 0, 1) for one in images]), captions


@torch.no_grad()
def encode(pipe: StableDiffusionPipeline, images: np.ndarray, captions: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Latents and embedded captions; they do not change, because autoencoder and text encoder are not trained."""
    latents, texts = [], []
    for begin in range(0, len(images), 16):
        pixels = torch.as_tensor(images[begin : begin + 16], device=pipe.device) / 127.5 - 1
        latents.append(pipe.vae.encode(pixels).latent_dist.mean.cpu() * pipe.vae.config.scaling_factor)
        tokens = pipe.tokenizer(captions[begin : begin + 16], padding="max_length", truncation=True)
        texts.append(pipe.text_encoder(torch.tensor(tokens.input_ids, device=pipe.device))[0].cpu())
    return torch.cat(latents), torch.cat(texts)


def generate(
    pipe: StableDiffusionPipeline, unet: UNet2DConditionModel, captions: list[str], asked: argparse.Namespace
) -> torch.Tensor:
    """One image per caption, as integers like the training images."""
    pipe.unet, found = unet, []
    how = {"guidance_scale": asked.guidance, "num_inference_steps": asked.sampling_steps, "output_type": "pt"}
    for begin in range(0, len(captions), 16):
        found.append(pipe(captions[begin : begin + 16], height=asked.size, width=asked.size, **how).images.cpu())
    return (torch.cat(found) * 255).round().byte()


def save_checkpoint(accelerator: Accelerator, folder: Path, step: int) -> None:
    """Writes everything that the next start needs; if this is interrupted, the checkpoint before it is still there."""
    unfinished, older = folder / "unfinished", list(folder.glob("step-*"))
    if accelerator.is_main_process:
        shutil.rmtree(unfinished, ignore_errors=True)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(unfinished))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        unfinished.rename(folder / f"step-{step}")
        for path in older:
            shutil.rmtree(path)


def load_checkpoint(accelerator: Accelerator, folder: Path) -> int:
    """Continues from the last checkpoint; returns its step, or 0 if there is none."""
    step = max((int(path.name.removeprefix("step-")) for path in folder.glob("step-*")), default=0)
    if step:
        accelerator.load_state(str(folder / f"step-{step}"))
        accelerator.print(f"continued from step {step}")
    return step


def save_weights(unet: UNet2DConditionModel, folder: Path, lora: int | None) -> None:
    """Writes the U-Net, or its adapters, in the form that diffusers reads."""
    if lora is None:
        unet.save_pretrained(folder)
    else:
        layers = convert_state_dict_to_diffusers(get_peft_model_state_dict(unet))
        StableDiffusionPipeline.save_lora_weights(folder, unet_lora_layers=layers)


def trained_part(unet: UNet2DConditionModel, lora: int | None) -> list[torch.nn.Parameter]:
    """The parameters to train: all, or those of new adapters in the attention layers, which freeze the others."""
    if lora is not None:
        targets = ["to_q", "to_k", "to_v", "to_out.0"]
        unet.add_adapter(LoraConfig(r=lora, lora_alpha=lora, init_lora_weights="gaussian", target_modules=targets))
    return [parameter for parameter in unet.parameters() if parameter.requires_grad]


def main() -> None:
    asked = arguments()
    asked.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    accelerator = Accelerator()
    criterion = StandIn(0.9)
    if asked.descriptor is not None:
        descriptor = load_descriptor(asked.descriptor, device=str(accelerator.device))
        criterion = tc.monitor.Embedding(descriptor, 0.5, name=descriptor.name)
    pipe = StableDiffusionPipeline.from_pretrained(asked.model, safety_checker=None).to(accelerator.device)
    pipe.set_progress_bar_config(disable=True)
    noise, pipe.scheduler = (kind.from_config(pipe.scheduler.config) for kind in (DDPMScheduler, DDIMScheduler))

    images, captions = read_images(asked.images, asked.size)
    rest = len(images) - asked.held_out
    n = rest if asked.train is None else min(asked.train, rest)
    if n < 1:
        sys.exit(f"--held-out: {asked.held_out} of {len(images)} images leave none to train on; give fewer")
    latents, texts = encode(pipe, images, captions)
    few = min(n, asked.held_out)  # training images for the loss: as many as are held out
    losses = DenoisingLoss(noise, (latents[:few], texts[:few]), (latents[rest:], texts[rest:]))
    monitor = tc.Monitor(images[:n], held_out=images[rest:], copies=criterion)
    accelerator.print(f"{n} training images, {asked.held_out} held out; counted: {criterion.name}")

    pipe.unet.train()
    parameters = trained_part(pipe.unet, asked.lora)
    unet, optimizer = accelerator.prepare(pipe.unet, torch.optim.AdamW(parameters, asked.rate))
    prompts = [captions[i % n] for i in range(asked.generations)]
    how = {"every": asked.every, "accelerator": accelerator, "model": unet, "losses": losses}
    hook = MonitorHook(monitor, lambda model: generate(pipe, model, prompts, asked), **how)
    step = load_checkpoint(accelerator, asked.out)

    while step < asked.steps and not hook.stop:
        step += 1  # batch and noise depend on the step only, so a continued run is the same run
        stream = torch.Generator().manual_seed(step * accelerator.num_processes + accelerator.process_index)
        rows = torch.randint(n, (asked.batch,), generator=stream)
        times = torch.randint(noise.config.num_train_timesteps, (asked.batch,), generator=stream)
        added = torch.randn(latents[rows].shape, generator=stream)
        batch = (one.to(accelerator.device) for one in (latents[rows], added, times, texts[rows]))
        loss = denoising_loss(unet, noise, *batch).mean()
        optimizer.param_groups[0]["lr"] = asked.rate * min(1.0, step / asked.warmup)
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        if (decision := hook.step(step, last=step == asked.steps)) is None:
            continue
        if accelerator.is_main_process:
            print(f"step {step}: loss {losses.last[0]:.4f}, held out {losses.last[1]:.4f}; ", end="")
            print(f"similarity {decision.similarity:.3f}, copies {decision.copy_rate:.3f}; {decision.phase}")
            monitor.gallery(asked.out / "copies.png")
            monitor.report(asked.out / "page.html")
            if decision.phase == "learning":
                save_weights(accelerator.unwrap_model(unet), asked.out / "before_copying", asked.lora)
        save_checkpoint(accelerator, asked.out, step)
    accelerator.print(f"stop: {hook.stop} at step {step}; {hook.decision.reason}\nloss gap: {hook.decision.clocks.gap}")


if __name__ == "__main__":
    try:
        main()
    except (tc.UserError, OSError) as error:  # a wrong value, or a file that is not there
        sys.exit(str(error))
