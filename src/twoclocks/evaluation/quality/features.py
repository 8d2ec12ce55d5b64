"""Feature spaces of images: what they are, how one is chosen in the settings, and the space of pixels."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from twoclocks.core.config import Settings, setting
from twoclocks.core.errors import UserError
from twoclocks.core.lazy import torch
from twoclocks.core.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 1024  # images in the network at once
GRID = 2.0**-20  # far above the errors of float64, far below what changes a distance
LARGEST = 32  # sides of the images that the spaces of this package see; larger images are averaged down to it


class Features(Protocol):
    """A fixed map from images to points. Equal digests are equal maps."""

    @property
    def name(self) -> str: ...

    @property
    def digest(self) -> str:
        """SHA-256 of everything that the map depends on, as hexadecimal text."""

    def __call__(self, pixels: Tensor) -> Tensor:
        """Images (n, channels, height, width), uint8, as features (n, d), float32, on the same device."""


@dataclass(frozen=True, kw_only=True)
class FeatureSpace(Settings):
    """Base class of the settings of a feature space; to add one, register a subclass in ``FEATURES``.

    A network of your own (Inception, DINO) is a subclass in a file that you import (``--import``): its ``fit`` loads
    the network and returns ``NetworkFeatures``. Nothing in this package loads a network that is also a program, such
    as a TorchScript file, because settings may come from somebody else.
    """

    @abstractmethod
    def fit(self, reserved: Tensor) -> Features:
        """The features, fitted to images (n, channels, height, width), uint8, that no run trains on or holds out."""


FEATURES: Registry[FeatureSpace] = Registry("feature", FeatureSpace)


@dataclass(frozen=True)
class Tensors:
    """Features of this package: named float32 tensors on the CPU, copied once to each device where they are used."""

    shape: tuple[int, int, int]  # of the images
    tensors: Mapping[str, Tensor]
    name: ClassVar[str]
    _copies: dict[str, dict[str, Tensor]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def digest(self) -> str:
        found = hashlib.sha256(f"{self.name} {self.shape}\n".encode())
        for key in sorted(self.tensors):
            found.update(f"{key} {tuple(self.tensors[key].shape)}\n".encode())
            found.update(self.tensors[key].numpy().tobytes())
        return found.hexdigest()

    @abstractmethod
    def map(self, images: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Images of ``unit_images`` as features (n, d)."""

    def __call__(self, pixels: Tensor) -> Tensor:
        check_pixels(pixels, self.shape)
        device = str(pixels.device)
        if device not in self._copies:
            self._copies[device] = {key: value.to(pixels.device) for key, value in self.tensors.items()}
        with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            found = [self.map(unit_images(some), self._copies[device]) for some in pixels.split(BATCH)]
        return torch.cat(found)


@dataclass(frozen=True)
class NetworkFeatures:
    """Features of any network of the user: images are resized, repeated to its channels, and scaled to its range."""

    name: str
    digest: str  # SHA-256 of the network's file
    network: Callable[[Tensor], Tensor]  # float32 (n, channels, side, side) to (n, d)
    side: int
    low: float = -1.0  # value of a black pixel
    high: float = 1.0  # value of a white pixel
    channels: int = 3
    batch: int = 128

    def __call__(self, pixels: Tensor) -> Tensor:
        check_pixels(pixels)
        with torch.no_grad():
            found = [self.network(self.network_input(some)).float() for some in pixels.split(self.batch)]
        features = torch.cat(found)
        if features.dim() != 2 or len(features) != len(pixels):
            shape = f"({len(pixels)}, d)"
            raise UserError(f"{self.name}: the network returns {tuple(features.shape)}; return features {shape}")
        return features

    def network_input(self, pixels: Tensor) -> Tensor:
        """Pixels as this network wants them."""
        images = pixels.float() / 255
        if images.shape[1] != self.channels:
            if images.shape[1] != 1:
                raise UserError(f"{self.name}: takes {self.channels} channels, the images have {images.shape[1]}")
            images = images.expand(-1, self.channels, -1, -1)
        size = (self.side, self.side)
        if tuple(images.shape[2:]) != size:
            images = torch.nn.functional.interpolate(images, size, mode="bilinear", antialias=True)
        return images * (self.high - self.low) + self.low


def check_pixels(pixels: Tensor, shape: tuple[int, ...] | None = None) -> None:
    """Raise UserError unless these are uint8 images (n, channels, height, width), of ``shape`` if it is given."""
    if pixels.dim() != 4 or pixels.dtype != torch.uint8 or not len(pixels) or pixels.shape[1] not in (1, 3):
        found = f"{pixels.dtype} of the shape {tuple(pixels.shape)}"
        raise UserError(f"images: {found} is not allowed; use uint8 of the shape (n, 1 or 3, height, width)")
    if shape is not None and tuple(pixels.shape[1:]) != tuple(shape):
        raise UserError(f"images: have the shape {tuple(pixels.shape[1:])}, the features are for {tuple(shape)}")


def unit_images(pixels: Tensor) -> Tensor:
    """Pixels as float32 from −1 to 1, averaged down to at most ``LARGEST`` pixels in height and width."""
    images = pixels.float() / 127.5 - 1
    size = (min(LARGEST, images.shape[2]), min(LARGEST, images.shape[3]))
    return images if tuple(images.shape[2:]) == size else torch.nn.functional.adaptive_avg_pool2d(images, size)


def unit_scale(features: Tensor) -> Tensor:
    """The factor that gives features (n, d) a variance of 1 on average over their dimensions: one number."""
    variance = features.double().var(dim=0, unbiased=False).mean()
    return torch.where(variance > 0, variance.rsqrt(), 1.0).float()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: the rounding of sums of several threads depends on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class PixelFeatures(Tensors):
    """Principal components of the pixels."""

    name: ClassVar[str] = "pixels"

    def map(self, images: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        return (images.flatten(1) - tensors["mean"]) @ tensors["components"]


@FEATURES.register("pixels")
@dataclass(frozen=True, kw_only=True)
class PixelSpace(FeatureSpace):
    """The first principal components of the pixels of reserved images.

    They are not whitened: white components would give the faintest one, which is mostly noise, the weight of the
    first, while without it distances are nearly those between the images, as the criterion of copies takes them. One
    factor for all of them gives features a variance of 1 on average.
    """

    components: int = setting(64, "principal components; fewer where the images have fewer", at_least=1, at_most=2048)

    def fit(self, reserved: Tensor) -> Features:
        check_pixels(reserved)
        images = unit_images(reserved.cpu()).flatten(1).double()
        mean = images.mean(dim=0)
        with one_thread():
            chosen = principal_components(images - mean, self.components)
            components = chosen * unit_scale((images - mean) @ chosen)
        channels, height, width = reserved.shape[1:]
        tensors = {"mean": on_grid(mean), "components": on_grid(components * signs(components))}
        return PixelFeatures((channels, height, width), tensors)


def signs(directions: Tensor) -> Tensor:
    """1 or −1 for each direction (entries, count), so that its largest entry becomes positive.

    An eigenvector times −1 is one as well, and libraries of linear algebra differ in which of the two they return.
    """
    largest = directions.gather(0, directions.abs().argmax(dim=0, keepdim=True))
    return torch.where(largest < 0, -1.0, 1.0).to(directions.dtype)


def on_grid(values: Tensor) -> Tensor:
    """Values rounded to multiples of ``GRID``: processors differ in the last bits, and features must not."""
    return ((values / GRID).round() * GRID + 0.0).float().contiguous()  # + 0.0: no negative zeros


def principal_components(centred: Tensor, most: int) -> Tensor:
    """Directions (entries, count) of largest variance of rows (n, entries): at least one, and none without variance.

    From the smaller of the two matrices of products: colour images have more entries than there are images.
    """
    n, entries = centred.shape
    values, vectors = torch.linalg.eigh(centred @ centred.T if n < entries else centred.T @ centred)
    count = max(1, min(most, int((values > 1e-9 * values[-1]).sum())))
    vectors = vectors.flip(1)[:, :count]
    return torch.nn.functional.normalize(centred.T @ vectors, dim=0) if n < entries else vectors
