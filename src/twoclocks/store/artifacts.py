"""What is kept of evaluations: tensors, one file an evaluation, whose SHA-256 stands in that evaluation's row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from twoclocks.store import files
from twoclocks.store.checksums import DamagedError

if TYPE_CHECKING:
    from torch import Tensor

KINDS = ("samples", "weights")  # each names a folder, and the column of a row with the SHA-256


class Artifacts:
    """The files of one kind, in one folder that is made when the first is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}.safetensors"

    def steps(self) -> list[int]:
        """Steps for which there is a file, with or without a row."""
        return steps_in(self.folder, ".safetensors")

    def write(self, step: int, tensors: Mapping[str, Tensor]) -> str:
        """The SHA-256 for the row, which is written afterwards."""
        from safetensors.torch import save

        return self.put(step, save({name: tensor.contiguous() for name, tensor in tensors.items()}))

    def put(self, step: int, data: bytes) -> str:
        files.make_folder(self.folder)
        files.write_atomic(self.path(step), data)
        return files.digest(data)

    def intact(self, step: int, written: str | None) -> bytes:
        """The bytes of a file, if they are those of its row."""
        if not self.path(step).exists():
            raise DamagedError(f"{self.path(step)}: is missing; restore it")
        data = files.read(self.path(step))
        if files.digest(data) != written:
            raise DamagedError(f"{self.path(step)}: is damaged (its SHA-256 is not that of its row); restore it")
        return data

    def read(self, step: int, written: str | None) -> dict[str, Tensor]:
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            return load(self.intact(step, written))
        except SafetensorError as error:  # only where it was written so
            raise DamagedError(f"{self.path(step)}: is not safetensors ({error})") from None


def steps_in(folder: Path, suffix: str) -> list[int]:
    """The steps for which a folder holds a file; other files are not ours."""
    found = (re.fullmatch(r"step-(\d+)", path.stem) for path in folder.glob(f"step-*{suffix}"))
    return sorted(int(match[1]) for match in found if match is not None)
