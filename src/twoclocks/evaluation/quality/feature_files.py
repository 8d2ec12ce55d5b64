"""Feature networks as files, to write one once and share it between runs and machines: safetensors, never a program."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.lazy import torch
from twoclocks.core.reading import read_file
from twoclocks.core.writing import replace_file
from twoclocks.evaluation.quality.autoencoder import AutoencoderFeatures
from twoclocks.evaluation.quality.features import FEATURES, Features, FeatureSpace, PixelFeatures, Tensors, check_pixels

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "twoclocks features 1"
MOST_BYTES = 1 << 30
KINDS: Mapping[str, type[Tensors]] = {kind.name: kind for kind in (PixelFeatures, AutoencoderFeatures)}
FIX = "write it again (twoclocks.evaluation.quality.save_features)"


def save_features(features: Features, path: Path | str) -> None:
    """Write features of this package (pixels, autoencoder) to one file, atomically; equal features are equal files."""
    from safetensors.torch import save

    if not isinstance(features, Tensors):
        raise UserError(f"features: {features.name!r} is a network of your own; share the file that it came from")
    about = {"format": FORMAT, "name": features.name, "shape": json.dumps(features.shape), "digest": features.digest}
    replace_file(path, [save(dict(features.tensors), {"about": json.dumps(about, sort_keys=True)})])


def load_features(path: Path | str) -> Features:
    """Features from a file of ``save_features``; UserError if it is damaged or something else."""
    return parsed(read_file(path, MOST_BYTES, fix="name a file of save_features"), str(path))


def parsed(data: bytes, path: str) -> Features:
    """Features from the bytes of a file."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(data)
        about: dict[str, Any] = json.loads(
            json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]["about"]
        )
        channels, height, width = json.loads(about["shape"])
        found = KINDS[about["name"]]((int(channels), int(height), int(width)), tensors)
        intact = about["format"] == FORMAT and about["digest"] == found.digest
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{path}: is no file of features; {FIX}") from None
    if not intact:
        raise UserError(f"{path}: is damaged or has another format (SHA-256 of its tensors differs); {FIX}")
    try:  # a file that somebody else wrote can have any tensors
        point = found(torch.zeros(1, *found.shape, dtype=torch.uint8))
    except (RuntimeError, KeyError, MemoryError, UserError):
        raise UserError(f"{path}: its tensors are not those of the features {found.name!r}; {FIX}") from None
    if point.dim() != 2 or not bool(torch.isfinite(point).all()):
        raise UserError(f"{path}: its features are not finite; {FIX}")
    return found


@FEATURES.register("file")
@dataclass(frozen=True, kw_only=True)
class FeatureFile(FeatureSpace):
    """Features that ``save_features`` wrote to a file: the same network for all runs, on every machine."""

    path: str = setting(help="the file")
    sha256: str = setting("", "SHA-256 of the file; filled in if empty, checked if given")

    def check(self) -> None:
        object.__setattr__(self, "path", str(Path(self.path).absolute()))  # found from any working directory
        found = hashlib.sha256(file_bytes(self.path)).hexdigest()
        if self.sha256 not in ("", found):
            fix = f"the file {self.path!r} has {found[:16]}…; use that file, or leave sha256 out"
            raise SettingError("sha256", self.sha256, fix)
        object.__setattr__(self, "sha256", found)

    def fit(self, reserved: Tensor) -> Features:
        """The features of the file; reserved images only have to have its shape."""
        features = parsed(file_bytes(self.path), self.path)
        assert isinstance(features, Tensors)
        check_pixels(reserved, features.shape)
        return features


@cache
def file_bytes(path: str) -> bytes:
    """The bytes of a file, read once per process, since settings are built often."""
    return read_file(path, MOST_BYTES, "evaluation.features.path", "name a file of save_features")
