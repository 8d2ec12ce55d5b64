"""Image descriptors from TorchScript files, such as SSCD, with the transform that they were published with."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from twoclocks.core.errors import UserError
from twoclocks.core.lazy import torch
from twoclocks.core.text import show
from twoclocks.monitor.inputs import as_array, checked_flag, checked_integer

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's red, green and blue, from 0 to 1
log = logging.getLogger("twoclocks")

TOLERANCE = 0.5  # by which floats may leave −1 to 1
EXAMPLE = "such as sscd_disc_mixup.torchscript.pt"


@dataclass(frozen=True)
class Descriptor:
    """A network that maps images to descriptors, whose cosine says how similar two images are.

    Images are arrays (n, 3, height, width): integers from 0 to 255, or floats from −1 to 1. Give it to
    ``Embedding(descriptor, 0.5, name=descriptor.name)``. ``load_descriptor`` makes one.
    """

    network: Any
    name: str  # with a part of the file's SHA-256: a stored monitor must not continue with another network
    edge: int
    square: bool
    device: str

    def __call__(self, images: Any) -> Any:
        """Descriptors (n, features) of images, as a tensor."""
        with torch.no_grad(), torch.autocast(torch.device(self.device).type, enabled=False):
            return self.network(self.transformed(images)).float()

    def transformed(self, images: Any) -> Any:
        """Images (n, 3, height, width) as the network was trained on: resized, and normalised as ImageNet's."""
        array = as_array(images, "images")
        if array.ndim != 4 or array.shape[1] != 3 or array.dtype.kind not in "uif":
            fix = "give RGB images (n, 3, height, width): integers from 0 to 255, or floats from −1 to 1"
            raise UserError(f"images: {array.dtype} of shape {array.shape} is not allowed; {fix}")
        check_range(array)
        pixels = torch.tensor(array, device=self.device).float()
        pixels = pixels / 255 if array.dtype.kind in "ui" else (pixels + 1) / 2
        size = self.size_of(*array.shape[2:])
        # Antialiasing is what torchvision's Resize does to PIL images; without it, large images would alias.
        resized = torch.nn.functional.interpolate(pixels, size, mode="bilinear", antialias=True)
        mean, std = (torch.tensor(values, device=self.device).view(3, 1, 1) for values in (MEAN, STD))
        return (resized.clamp(0, 1) - mean) / std

    def size_of(self, height: int, width: int) -> tuple[int, int]:
        """Height and width after resizing: the shorter edge is ``edge``, or both are."""
        if self.square:
            return self.edge, self.edge
        short = min(height, width)
        return self.edge * height // short, self.edge * width // short


def check_range(images: npt.NDArray[Any]) -> None:
    """UserError for pixels of another range, which would become all black or all white, and so alike.

    Floats may leave −1 to 1 a little, as those of a decoder do.
    """
    low, high = (float(images.min()), float(images.max())) if images.size else (0.0, 0.0)
    least, most = (0.0, 255.0) if images.dtype.kind in "ui" else (-1 - TOLERANCE, 1 + TOLERANCE)
    if not (least <= low and high <= most):
        fix = "give integers from 0 to 255, or floats from −1 to 1"
        raise UserError(f"images: pixels from {low:g} to {high:g} ({images.dtype}) are not allowed; {fix}")
    if images.dtype.kind == "f" and low >= 0 and images.size:
        log.warning("images: no pixel is negative; floats are taken as −1 (black) to 1 (white), not as 0 to 1")


def load_descriptor(
    descriptor: str | os.PathLike[str], *, edge: int = 288, square: bool = False, device: str = "cpu"
) -> Descriptor:
    """Load a descriptor from a TorchScript file on your disk; this runs code in the file, so know where it is from.

    The defaults are those that SSCD's authors recommend: the shorter edge becomes 288 pixels, with the mean and
    standard deviation of ImageNet. Their other transform is 320 × 320 pixels: ``edge=320, square=True``.
    """
    edge = checked_integer("edge", edge, 1, 4096)
    checked_flag("square", square)
    if not isinstance(descriptor, str | os.PathLike) or not Path(descriptor).is_file():
        problem = f"{show(str(descriptor))} is not a file" if descriptor else f"{show(descriptor)} names no file"
        raise UserError(f"descriptor: {problem}; give a TorchScript file, {EXAMPLE}")
    path = Path(descriptor)
    content = path.read_bytes()  # once: what is loaded is what the SHA-256 is of
    digest = hashlib.sha256(content).hexdigest()
    size = f"{edge} × {edge} pixels" if square else f"shorter edge {edge} pixels"
    name = f"{path.name} (SHA-256 {digest[:12]}…, {size})"
    found = Descriptor(network_of(content, path, device), name, edge, square, device)
    check_network(found, path)
    return found


def network_of(content: bytes, path: Path, device: str) -> Any:
    """The network in a TorchScript file, in eval mode."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch asks authors of files for torch.export
            return torch.jit.load(io.BytesIO(content), map_location=device).eval()
    except (RuntimeError, ValueError) as error:
        why = show(str(error).partition(".")[0], 120)
        fix = f"give one that torch.jit.save wrote, {EXAMPLE}"
        raise UserError(f"descriptor: {show(str(path))} is not a TorchScript file ({why}); {fix}") from None


def check_network(descriptor: Descriptor, path: Path) -> None:
    """Raise UserError unless the network maps two images to two rows of numbers."""
    images = torch.linspace(-1, 1, 2 * 3 * 32 * 32).view(2, 3, 32, 32)
    try:
        found = descriptor(images)
        shape, numbers = tuple(found.shape), bool(found.isfinite().all())
    except Exception as error:  # the network is the user's; any error may come out of it
        last = str(error).strip().splitlines()[-1:] or [""]
        fix = "give a network that maps images (n, 3, height, width) to numbers (n, features)"
        why = f"{type(error).__name__}: {show(last[0], 120)}"
        raise UserError(f"descriptor: {show(str(path))} failed on two images ({why}); {fix}") from None
    if len(shape) != 2 or shape[0] != 2 or shape[1] == 0 or not numbers:
        what = f"shape {shape}" if numbers else "NaN or infinity"
        fix = "give one that returns finite numbers of shape (n, features)"
        raise UserError(f"descriptor: {show(str(path))} returned {what} for 2 images; {fix}")
