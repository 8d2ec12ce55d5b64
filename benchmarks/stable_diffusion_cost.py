"""Operations and memory of a fine-tune of Stable Diffusion 2.1 with the settings of P2, counted without weights.

    python benchmarks/stable_diffusion_cost.py --out results/stable_diffusion_cost.json

The networks are built from the published sizes on torch's device "meta", which computes nothing, and torch counts the
operations of their layers (a multiplication with its addition is two). Hours follow from an assumed speed: nothing is
timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from peft import LoraConfig
from torch.utils.flop_counter import FlopCounterMode
from transformers import CLIPTextConfig, CLIPTextModel

from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

SIDE, TOKENS, WIDTH = 256, 77, 1_024  # pixels, tokens of a caption, width of its embedding
TRAIN, HELD_OUT, BATCH, STEPS = 8_192, 1_024, 16, 262_144
EVERY, GENERATIONS, SAMPLING_STEPS, LEVELS = 8_192, 200, 50, 8  # defaults of examples/stable_diffusion.py
GUIDED = 2  # evaluations per sampling step: with and without the caption
RANK = 16
GPUS = {"NVIDIA RTX 4090": 165e12, "NVIDIA A100": 312e12, "NVIDIA H100": 989e12}  # bfloat16 operations per second
UTILISATION = 0.2  # part of that peak which small batches of a U-Net reach; an assumption


def build_unet() -> UNet2DConditionModel:
    """The U-Net of Stable Diffusion 2.1, without values."""
    heads = {"attention_head_dim": [5, 10, 20, 20], "use_linear_projection": True}
    return UNet2DConditionModel(sample_size=SIDE // 8, cross_attention_dim=WIDTH, **heads)


def build_autoencoder() -> AutoencoderKL:
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4}
    return AutoencoderKL(block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=4, **blocks)


def build_text_encoder() -> CLIPTextModel:
    layers = {"num_hidden_layers": 23, "num_attention_heads": 16, "intermediate_size": 4 * WIDTH}
    return CLIPTextModel(CLIPTextConfig(vocab_size=49_408, hidden_size=WIDTH, hidden_act="gelu", **layers))


def operations(work: Callable[[], Any]) -> int:
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def denoise(unet: UNet2DConditionModel) -> torch.Tensor:
    found: torch.Tensor = unet(
        torch.zeros(1, 4, SIDE // 8, SIDE // 8), torch.zeros(1, dtype=torch.int64), torch.zeros(1, TOKENS, WIDTH)
    ).sample
    return found


def counted() -> dict[str, Any]:
    """Operations per image of each part, and parameters."""
    with torch.device("meta"):
        unet, vae, text = build_unet(), build_autoencoder(), build_text_encoder()
        full = operations(lambda: denoise(unet).sum().backward())
        parameters = sum(p.numel() for p in unet.parameters())
        frozen = sum(p.numel() for network in (vae, text) for p in network.parameters())
        with torch.no_grad():
            found = {
                "U-Net, forward": operations(lambda: denoise(unet)),
                "encode an image": operations(lambda: vae.encode(torch.zeros(1, 3, SIDE, SIDE))),
                "decode an image": operations(lambda: vae.decode(torch.zeros(1, 4, SIDE // 8, SIDE // 8))),
                "embed a caption": operations(lambda: text(torch.zeros(1, TOKENS, dtype=torch.int64))),
            }
        unet.requires_grad_(False)
        unet.add_adapter(LoraConfig(r=RANK, target_modules=["to_q", "to_k", "to_v", "to_out.0"]))
        lora = operations(lambda: denoise(unet).sum().backward())
        adapters = sum(p.numel() for p in unet.parameters() if p.requires_grad)
    return {
        "operations": found | {"U-Net, full training": full, "U-Net, LoRA training": lora},
        "parameters": {"U-Net": parameters, f"LoRA of rank {RANK}": adapters, "never trained": frozen},
    }


def costs(found: dict[str, Any]) -> dict[str, Any]:
    """Operations of a whole run by part, hours per GPU, and bytes."""
    each, looks = found["operations"], STEPS // EVERY
    losses = looks * 2 * HELD_OUT * LEVELS * each["U-Net, forward"]
    generations = SAMPLING_STEPS * GUIDED * each["U-Net, forward"] + each["decode an image"]
    shared = {
        "encoding, once": (TRAIN + HELD_OUT) * (each["encode an image"] + each["embed a caption"]),
        "losses of all looks": losses,
        "generations of all looks": looks * GENERATIONS * generations,
    }
    parameters, adapters, frozen = found["parameters"].values()
    rows = []
    for name, per_image, weights, trained in (
        ("full U-Net", each["U-Net, full training"], parameters, parameters),
        (f"LoRA of rank {RANK}", each["U-Net, LoRA training"], parameters + adapters, adapters),
    ):
        parts = {"training": STEPS * BATCH * per_image} | shared
        rows.append(
            {
                "kind": name,
                "operations": parts,
                "hours": {gpu: sum(parts.values()) / (peak * UTILISATION) / 3600 for gpu, peak in GPUS.items()},
                # float32: weights, and of the trained ones also gradients and Adam's two moments
                "bytes of weights, gradients and moments": 4 * (weights + frozen + 3 * trained),
                "bytes of a checkpoint": 4 * (weights + 2 * trained),
            }
        )
    return {"rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    found = counted()
    result = {
        "command": f"python benchmarks/stable_diffusion_cost.py --out results/{arguments.out.name}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cpu"),
        "settings": {
            **{"train": TRAIN, "held_out": HELD_OUT, "batch": BATCH, "steps": STEPS, "every": EVERY, "size": SIDE},
            **{"generations": GENERATIONS, "sampling_steps": SAMPLING_STEPS, "levels": LEVELS},
        },
        "assumed": {"peak operations per second": GPUS, "utilisation": UTILISATION},
        **found,
        **costs(found),
    }
    write_json(arguments.out, result)
    print(result)


if __name__ == "__main__":
    main()
