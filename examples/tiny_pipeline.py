"""A Stable Diffusion pipeline of tiny sizes and a folder of captioned images, for ``stable_diffusion.py --smoke``."""

import json
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, DDPMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from PIL import Image
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

COLOURS = {"red": (220, 30, 40), "green": (40, 180, 60), "blue": (40, 70, 220), "grey": (128, 128, 128)}
SIDE, TOKENS = 8, 32  # pixels, and most tokens of a caption

# Settings of the example at this size.
SMOKE = {"size": 8, "held_out": 50, "train": 2, "batch": 8, "rate": 2e-3, "warmup": 10, "steps": 400, "every": 40}
SMOKE |= {"generations": 48, "guidance": 1.0, "sampling_steps": 10}


def write_inputs(folder: Path) -> tuple[Path, Path]:
    """Folders of a tiny pipeline and of its images; written if they are not there from an earlier start."""
    model, images = folder / "model", folder / "images"
    if not (model / "model_index.json").exists():  # it is written last
        pixels = draw_images(images)
        write_pipeline(model, torch.as_tensor(pixels).permute(0, 3, 1, 2) / 127.5 - 1)
    return model, images


def draw_images(folder: Path, number: int = 200) -> np.ndarray:
    """Writes images of two by two squares, and metadata.jsonl, in which the caption of each names the colours."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, lines, drawn = np.random.default_rng(0), [], []
    for index, which in enumerate(rng.permutation(256)[:number]):  # 256: four colours at four places
        names = [list(COLOURS)[which // 4**place % 4] for place in range(4)]
        squares = np.array([COLOURS[name] for name in names], dtype=np.uint8).reshape(2, 2, 3)
        drawn.append(squares.repeat(SIDE // 2, axis=0).repeat(SIDE // 2, axis=1))
        Image.fromarray(drawn[-1]).save(folder / f"{index:03}.png")
        lines.append(json.dumps({"file_name": f"{index:03}.png", "text": " ".join(names)}))
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return np.stack(drawn)


def write_tokenizer(folder: Path) -> CLIPTokenizer:
    """A tokenizer of CLIP whose vocabulary is the letters a to z, at the end of a word and before it."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    symbols = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {symbol: index for index, symbol in enumerate(symbols)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=TOKENS)


def write_pipeline(folder: Path, images: torch.Tensor, vae_steps: int = 200) -> None:
    """Writes a pipeline with random weights; only its autoencoder is trained, on images (n, 3, 8, 8) from −1 to 1.

    Without that, it could not decode anything that resembles an image, and no generation could be a copy.
    """
    torch.manual_seed(0)
    blocks = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8}
    vae = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        sample_size=SIDE,
        **blocks,
    )
    train_autoencoder(vae, images, vae_steps)
    unet = UNet2DConditionModel(
        sample_size=SIDE // 2,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        **blocks | {"block_out_channels": (32, 64)},
    )
    tokenizer = write_tokenizer(folder / "tokenizer")
    text = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=TOKENS,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    noise = DDPMScheduler(
        beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012, clip_sample=False, steps_offset=1
    )
    parts = {"vae": vae, "unet": unet, "text_encoder": CLIPTextModel(text), "tokenizer": tokenizer, "scheduler": noise}
    unused = {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}
    StableDiffusionPipeline(**parts, **unused).save_pretrained(folder)


def train_autoencoder(vae: AutoencoderKL, images: torch.Tensor, steps: int) -> None:
    optimizer = torch.optim.Adam(vae.parameters(), 3e-3)
    for _ in range(steps):
        pixels = images[torch.randint(len(images), (16,))]
        latents = vae.encode(pixels).latent_dist
        loss = (vae.decode(latents.sample()).sample - pixels).square().mean() + 1e-4 * latents.kl().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():  # as in Stable Diffusion: latents have a standard deviation of 1 after scaling
        vae.register_to_config(scaling_factor=float(1 / vae.encode(images).latent_dist.mean.std()))
