"""A feature network of your own, such as Inception or DINO, from a TorchScript file on your disk.

    twoclocks run FILE.yaml --import torchscript_features.py --evaluation.features.name torchscript \
        --evaluation.features.path inception.pt --evaluation.features.side 299

A TorchScript file is a program: load one only if you trust where it comes from. Its SHA-256 is part of the settings.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

import torch

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.evaluation.quality import FEATURES, Features, FeatureSpace, NetworkFeatures


@FEATURES.register("torchscript")
@dataclass(frozen=True, kw_only=True)
class TorchScriptFile(FeatureSpace):
    """A network that maps float images (n, 3, side, side) to features (n, d)."""

    path: str = setting(help="the TorchScript file")
    sha256: str = setting("", "SHA-256 of the file; filled in if empty, checked if given")
    side: int = setting(help="height and width of the images that the network takes", at_least=1)
    low: float = setting(-1.0, "what the network takes for black")
    high: float = setting(1.0, "what the network takes for white")

    def check(self) -> None:
        object.__setattr__(self, "path", str(Path(self.path).absolute()))
        object.__setattr__(self, "sha256", hashlib.sha256(self.checked_bytes()).hexdigest())

    def checked_bytes(self) -> bytes:
        """The file; an error if it is another one than the settings say."""
        try:
            data = Path(self.path).read_bytes()
        except OSError as error:
            raise SettingError("path", self.path, f"it cannot be read ({error.strerror}); check the path") from None
        found = hashlib.sha256(data).hexdigest()
        if self.sha256 not in ("", found):
            raise SettingError("sha256", self.sha256, f"the file has {found[:16]}…; use that file, or leave sha256 out")
        return data

    def fit(self, reserved: torch.Tensor) -> Features:
        network = torch.jit.load(io.BytesIO(self.checked_bytes()), map_location="cpu").eval()
        return NetworkFeatures(
            "torchscript",
            self.sha256,
            lambda images: network.to(images.device)(images),
            side=self.side,
            low=self.low,
            high=self.high,
        )
