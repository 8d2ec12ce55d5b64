"""Features that need no download: the code of a small denoising autoencoder, trained on reserved images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from twoclocks.core.config import setting
from twoclocks.core.lazy import torch
from twoclocks.core.seeds import torch_stream
from twoclocks.evaluation.quality.features import (
    FEATURES,
    Features,
    FeatureSpace,
    Tensors,
    check_pixels,
    one_thread,
    unit_images,
    unit_scale,
)

if TYPE_CHECKING:
    from torch import Generator, Tensor

WIDTHS = (16, 32)  # channels of the two convolutions
BATCH, RATE = 64, 2e-3
Weights = Mapping[str, "Tensor"]


class AutoencoderFeatures(Tensors):
    """The code of the autoencoder, centred and scaled so that reserved images have a variance of 1 on average."""

    name: ClassVar[str] = "autoencoder"

    def map(self, images: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        return (encode(images, tensors) - tensors["centre"]) * tensors["scale"]


@FEATURES.register("autoencoder")
@dataclass(frozen=True, kw_only=True)
class AutoencoderSpace(FeatureSpace):
    """A small convolutional autoencoder, trained on images that no run trains on or holds out, then frozen.

    It is trained on one core of the CPU, whatever the device of the run, so that all runs on a machine share it. Other
    processors round differently: its SHA-256 says whether two runs had the same features.
    """

    dimensions: int = setting(32, "length of the code", at_least=1, at_most=1024)
    steps: int = setting(600, "training steps, of 64 images each", at_least=1, at_most=10**6)
    noise: float = setting(
        0.5, "largest standard deviation of the noise on input images, whose pixels are −1 to 1", at_least=0
    )
    seed: int = setting(0, "seed of the initial weights, the batches and the noise")

    def fit(self, reserved: Tensor) -> Features:
        check_pixels(reserved)
        images = unit_images(reserved.cpu())
        with one_thread():
            weights = trained(images, self)
            with torch.no_grad():
                code = encode(images, weights)
        weights |= {"centre": code.mean(dim=0), "scale": unit_scale(code)}
        channels, height, width = reserved.shape[1:]
        kept = {key: value for key, value in weights.items() if not key.startswith("decoder")}
        return AutoencoderFeatures((channels, height, width), kept)


def trained(images: Tensor, settings: AutoencoderSpace) -> dict[str, Tensor]:
    """Weights that restore images (n, channels, height, width) from their noisy versions, by mean squared error."""
    generator = torch_stream(settings.seed, "feature network")
    weights = initial_weights((images.shape[1], images.shape[2], images.shape[3]), settings.dimensions, generator)
    optimizer = torch.optim.Adam(weights.values(), lr=RATE)
    for step in range(settings.steps):
        optimizer.param_groups[0]["lr"] = RATE * (1 + math.cos(math.pi * step / settings.steps)) / 2
        clean = images[torch.randint(len(images), (BATCH,), generator=generator)]
        sigma = settings.noise * torch.rand(BATCH, 1, 1, 1, generator=generator)
        noisy = clean + sigma * torch.randn(clean.shape, generator=generator)
        with torch.enable_grad():
            restored = decode(encode(noisy, weights), weights, (images.shape[2], images.shape[3]))
            loss = (restored - clean).square().mean()
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
    return {key: value.detach() for key, value in weights.items()}


def sizes(height: int, width: int) -> list[tuple[int, int]]:
    """Height and width of the image and after each convolution of stride 2."""
    return [(-(-height // 2**level), -(-width // 2**level)) for level in range(3)]


def initial_weights(shape: tuple[int, int, int], dimensions: int, generator: Generator) -> dict[str, Tensor]:
    """Random weights, with the scale of He et al.; biases are 0."""
    channels, height, width = shape
    rows, columns = sizes(height, width)[2]
    inner = WIDTHS[1] * rows * columns
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.1": (WIDTHS[0], channels, 3, 3),
        "encoder.2": (WIDTHS[1], WIDTHS[0], 3, 3),
        "encoder.3": (dimensions, inner),
        "decoder.3": (inner, dimensions),
        "decoder.2": (WIDTHS[0], WIDTHS[1], 3, 3),
        "decoder.1": (channels, WIDTHS[0], 3, 3),
    }
    weights = {}
    for name, size in shapes.items():
        values = torch.randn(size, generator=generator) * math.sqrt(2 / math.prod(size[1:]))
        weights[f"{name}.weight"] = values.requires_grad_()
        weights[f"{name}.bias"] = torch.zeros(size[0]).requires_grad_()
    return weights


def encode(images: Tensor, weights: Weights) -> Tensor:
    """Images (n, channels, height, width) as codes (n, dimensions)."""
    functional = torch.nn.functional
    x = images
    for name in ("encoder.1", "encoder.2"):
        x = functional.gelu(
            functional.conv2d(x, weights[f"{name}.weight"], weights[f"{name}.bias"], stride=2, padding=1)
        )
    return functional.linear(x.flatten(1), weights["encoder.3.weight"], weights["encoder.3.bias"])


def decode(code: Tensor, weights: Weights, size: tuple[int, int]) -> Tensor:
    """Codes (n, dimensions) as images of this height and width."""
    functional = torch.nn.functional
    _, half, quarter = sizes(*size)
    x = functional.linear(code, weights["decoder.3.weight"], weights["decoder.3.bias"])
    x = functional.gelu(x).reshape(len(code), WIDTHS[1], *quarter)
    x = functional.interpolate(x, half, mode="nearest")
    x = functional.gelu(functional.conv2d(x, weights["decoder.2.weight"], weights["decoder.2.bias"], padding=1))
    x = functional.interpolate(x, size, mode="nearest")
    return functional.conv2d(x, weights["decoder.1.weight"], weights["decoder.1.bias"], padding=1)
