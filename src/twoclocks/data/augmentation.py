"""Augmentation that keeps the rule: pieces of a sample change places, images are mirrored, drawn anew at each use.

A model that sees every group at every place cannot learn which groups stand together in a training sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twoclocks.core.errors import SettingError
from twoclocks.core.lazy import torch
from twoclocks.data.shown import Change
from twoclocks.rules.base import Rule

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Exchange:
    """Pieces of a sample, such as groups or rows, change places at random."""

    places: Tensor  # (pieces, entries): positions in the flattened sample

    def __call__(self, clean: Tensor, generator: torch.Generator) -> Tensor:
        """Samples (n, *shape), or with channels in front (n, channels, *shape), each with an order of its own."""
        pieces = len(self.places)
        order = torch.rand(len(clean), pieces, generator=generator, device=clean.device).argsort(dim=1)
        source = torch.empty(len(clean), self.places.numel(), dtype=torch.int64, device=clean.device)
        source[:, self.places.flatten()] = self.places[order].flatten(1)  # the entry that each position gets
        flat = clean.flatten(1).unflatten(1, (-1, self.places.numel()))  # (n, channels, entries)
        moved: Tensor = flat.gather(2, source[:, None].expand_as(flat)).reshape(clean.shape)
        return moved


@dataclass(frozen=True)
class Mirrored:
    """Images are mirrored left to right with probability ½."""

    shape: tuple[int, ...]  # channels, height, width: as tokens, an image is one long row

    def __call__(self, clean: Tensor, generator: torch.Generator) -> Tensor:
        """Images (n, *shape), or their values as tokens (n, entries)."""
        images = clean.reshape(len(clean), *self.shape)
        chosen = torch.rand(len(clean), generator=generator, device=clean.device) < 0.5
        return torch.where(chosen[:, None, None, None], images.flip(-1), images).reshape(clean.shape)


def check_augmentation(rule: Rule) -> None:
    """Raise SettingError where no change of places keeps the rule."""
    if not rule.is_image and rule.exchangeable is None:
        fix = "no pieces of this rule can change places; use false, or parity, a rule of rows, or images"
        raise SettingError("augment", True, fix)


def augmentation(rule: Rule, device: str | torch.device) -> Change:
    """What changes encoded samples of a rule and keeps them valid."""
    check_augmentation(rule)
    if rule.is_image:
        return Mirrored(rule.shape)
    positions = torch.arange(math.prod(rule.shape)).reshape(1, *rule.shape)
    assert rule.exchangeable is not None
    return Exchange(rule.parts(positions)[rule.exchangeable][0].to(device))
