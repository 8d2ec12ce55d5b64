"""Artifacts of evaluations: tensors in one file per evaluation; its SHA-256 is in the row of that evaluation."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from twoclocks.store import files
from twoclocks.store.checksums import DamagedError

if TYPE_CHECKING:
    from torch import Tensor

KINDS = ("samples", "weights")  # each is the name of a folder, and of the column with the SHA-256


class Artifacts:
    """The files of one kind, in one folder, which is created with the first file."""

    def __init__(self, folder: Path, guard: files.Guard = files.unguarded) -> None:
        self.folder, self.guard = folder, guard

    def path(self, step: int) -> Path:
        """The file of a step."""
        return self.folder / f"step-{step:09d}.safetensors"

    def steps(self) -> list[int]:
        """Steps that have a file, with or without a row."""
        return steps_in(self.folder, ".safetensors")

    def write(self, step: int, tensors: Mapping[str, Tensor]) -> str:
        """Write tensors and return the SHA-256 of the file, for the row that is written afterwards."""
        return self.put(step, encode_tensors(tensors))

    def put(self, step: int, data: bytes) -> str:
        """Write the bytes of a file and return their SHA-256."""
        self.guard()
        files.make_folder(self.folder)
        files.write_atomic(self.path(step), data, self.guard)
        return files.digest(data)

    def intact(self, step: int, written: str | None) -> bytes:
        """Read the bytes of a file; DamagedError unless their SHA-256 is ``written``, that of its row."""
        if not os.path.lexists(self.path(step)):
            raise DamagedError(f"{self.path(step)}: is missing; restore it")
        data = files.read(self.path(step))
        if files.digest(data) != written:
            raise DamagedError(f"{self.path(step)}: is damaged (its SHA-256 is not that of its row); restore it")
        return data

    def read(self, step: int, written: str | None) -> dict[str, Tensor]:
        """Read the tensors of a file; DamagedError unless its SHA-256 is ``written``."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            return load(self.intact(step, written))
        except SafetensorError as error:  # possible only if it was written like this
            raise DamagedError(f"{self.path(step)}: is not safetensors ({error})") from None


def encode_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors as the bytes of a safetensors file."""
    from safetensors.torch import save

    return save({name: tensor.contiguous() for name, tensor in tensors.items()})


def steps_in(folder: Path, suffix: str) -> list[int]:
    """Steps for which a folder contains a file; files with other names are ignored."""
    found = (re.fullmatch(r"step-(\d+)", path.stem) for path in folder.glob(f"step-*{suffix}"))
    return sorted(int(match[1]) for match in found if match is not None)
