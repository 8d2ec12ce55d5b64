"""The real images with which samples are compared, their features, and the floor of every number of quality."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from twoclocks.core.lazy import torch
from twoclocks.evaluation.copies import digest, flat_rows, packed
from twoclocks.evaluation.quality.distances import frechet_distance, kernel_distance
from twoclocks.evaluation.quality.features import Features, FeatureSpace
from twoclocks.evaluation.quality.manifolds import authenticity, density_coverage, kth_distances, precision_recall

if TYPE_CHECKING:
    from torch import Tensor

    from twoclocks.evaluation.samples import Reference

LEAST = 32  # images in a group; below it no number means much
VALUES = 256  # of a pixel
KEPT = 4  # fitted feature networks that a process keeps


@runtime_checkable
class ReservesImages(Protocol):
    """A rule whose samples are images, some of which are kept for the feature network."""

    def reserved(self) -> Tensor:
        """Images (n, channels, height, width), uint8, that no run trains on or holds out."""


@dataclass(frozen=True)
class RealImages:
    """Images (n, channels, height, width), uint8: those that were trained on, held out, and reserved for features."""

    train: Tensor
    held_out: Tensor
    reserved: Tensor


def images_of(reference: Reference) -> RealImages | None:
    """The real images of a run; None where samples are no images, or nothing is held out."""
    rule, held_out = reference.rule, reference.held_out
    if held_out is None or not isinstance(rule, ReservesImages):
        return None
    return RealImages(reference.train.to(torch.uint8), held_out.to(torch.uint8), rule.reserved())


class Quality(NamedTuple):
    """All numbers for some samples; flags and counts stay on the device."""

    frechet: Tensor
    kernel_distance: Tensor
    precise: Tensor  # how many samples
    recall: Tensor
    density: Tensor
    coverage: Tensor
    compared: int  # samples that ``precise`` is out of
    authentic: Tensor  # how many samples
    samples: int  # that ``authentic`` is out of


class QualityScale:
    """Quality of samples against held-out images, with its floor.

    **Real images are held-out ones.** P2 takes FID against the training set. A model that copies its training set has
    an FID of 0 then, and the best value is reached by memorizing. Against held-out images a copy is worth no more than
    any other real image, so quality and copying stay two questions (Naeem et al. 2020 and Alaa et al. 2022 separate
    them too). Only authenticity, which asks for copies, compares with the training set.

    **Equal numbers.** All numbers but kernel distance, density and authenticity depend on how many images are compared.
    So the held-out images are cut into two halves of ``group`` images. The first is the reference. The value of the
    second is the floor: what a perfect model would have. Samples are cut into groups of that size, and a value is the
    mean over groups; samples that do not fill a group are left out. Groups do not depend on the order of the samples.
    """

    def __init__(self, images: RealImages, space: FeatureSpace, samples: int) -> None:
        self.images, self.space = images, space
        self.group = min(len(images.held_out) // 2, samples)

    @cached_property
    def features(self) -> Features:
        return fitted(self.space, self.images.reserved)

    @cached_property
    def real(self) -> Tensor:
        """Features of the reference half."""
        return self.features(self.images.held_out[: self.group])

    @cached_property
    def train(self) -> Tensor:
        return self.features(self.images.train)

    @cached_property
    def spacing(self) -> Tensor:
        """Distance of each training image to the nearest other one."""
        return kth_distances(self.train, 1)

    @cached_property
    def floor(self) -> Quality:
        """The numbers of real images: the second half of those that are held out."""
        return self(self.images.held_out[self.group : 2 * self.group])

    def __call__(self, pixels: Tensor) -> Quality:
        """The numbers of images (n, channels, height, width), uint8; NaN where they do not fill one group."""
        if len(pixels) < self.group:
            nan = torch.full((), torch.nan, dtype=torch.float64, device=pixels.device)
            none = torch.zeros((), dtype=torch.int64, device=pixels.device)
            return Quality(nan, nan, none, nan, nan, nan, 0, none, 0)
        fake = self.features(pixels[content_order(pixels)])
        groups = [some for some in fake.split(self.group) if len(some) == self.group]
        flags = [(*precision_recall(self.real, some), *density_coverage(self.real, some)) for some in groups]
        precise, recalled, density, covered = (torch.stack(parts).double() for parts in zip(*flags, strict=True))
        return Quality(
            frechet=torch.stack([frechet_distance(self.real, some) for some in groups]).mean(),
            kernel_distance=torch.stack([kernel_distance(self.real, some) for some in groups]).mean(),
            precise=precise.sum().long(),
            recall=recalled.mean(),
            density=density.mean(),
            coverage=covered.mean(),
            compared=precise.numel(),
            authentic=authenticity(self.train, fake, self.spacing).sum(),
            samples=len(fake),
        )


def content_order(pixels: Tensor) -> Tensor:
    """An order of the images that depends on their contents alone, and is otherwise as good as random."""
    return digest(packed(flat_rows(pixels), VALUES), seed=0).sort(stable=True).indices


_fitted: OrderedDict[tuple[FeatureSpace, str], Features] = OrderedDict()


def fitted(space: FeatureSpace, reserved: Tensor) -> Features:
    """The features of a space, fitted once per process for the same images: a network takes seconds to train."""
    content = hashlib.sha256(f"{tuple(reserved.shape)}".encode() + reserved.cpu().numpy().tobytes()).hexdigest()
    key = (space, content)
    if key not in _fitted:
        _fitted[key] = space.fit(reserved)
        while len(_fitted) > KEPT:
            _fitted.popitem(last=False)
    return _fitted[key]
