"""Checkpoints: a file of tensors and a JSON description; a file whose SHA-256 differs is never loaded.

step-000001000.safetensors   weights, optimizer, loop, random generator
step-000001000.json          step, size and SHA-256 of the tensors, and the link of the last metrics row before it
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoclocks.core.errors import UserError
from twoclocks.store import files
from twoclocks.store.artifacts import encode_tensors, steps_in
from twoclocks.store.checksums import DamagedError, decode_document, encode_document, require

if TYPE_CHECKING:
    from torch import Tensor

KEEP = 2  # the newest, and one more in case the newest is damaged


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run at one step."""

    step: int
    tensors: dict[str, Tensor]
    link: str  # of the last metrics row that was written before it


class Checkpoints:
    """The checkpoints of one run, in one folder."""

    def __init__(self, folder: Path, guard: files.Guard = files.unguarded) -> None:
        self.folder, self.guard = folder, guard

    def steps(self) -> list[int]:
        """Steps of all checkpoints that have a description, intact or not."""
        return steps_in(self.folder, ".json")

    def paths(self, step: int) -> tuple[Path, Path]:
        """The files of a checkpoint: description, then tensors."""
        return self.folder / f"step-{step:09d}.json", self.folder / f"step-{step:09d}.safetensors"

    def prune(self, last: int) -> None:
        """Remove all files up to step ``last`` but those of the newest checkpoints: also what a crash left behind."""
        kept = [step for step in self.steps() if step <= last][-KEEP:]
        for step in {*steps_in(self.folder, ".json"), *steps_in(self.folder, ".safetensors")} - {*kept}:
            if step <= last:
                self.remove(step)

    def clear_after(self, last: int) -> None:
        """Remove all files of steps after ``last``."""
        for step in {*steps_in(self.folder, ".json"), *steps_in(self.folder, ".safetensors")}:
            if step > last:
                self.remove(step)

    def write(self, step: int, tensors: Mapping[str, Tensor], link: str) -> None:
        """Write tensors, then their description, which makes the checkpoint valid; then remove older checkpoints."""
        data = encode_tensors(tensors)
        about, stored = self.paths(step)
        files.write_atomic(stored, data, self.guard)
        described = {"step": step, "link": link, "tensors": files.digest(data), "bytes": len(data)}
        files.write_atomic(about, encode_document(described), self.guard)
        self.prune(step)

    def read(self, step: int) -> Checkpoint:
        """Load a checkpoint; DamagedError if it is not what was written."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        about, data = self.intact(step)
        try:
            return Checkpoint(step, load(data), about["link"])
        except SafetensorError as error:  # possible only if it was written like this
            raise DamagedError(f"{self.paths(step)[1]}: is not safetensors ({error})") from None

    def intact(self, step: int) -> tuple[dict[str, Any], bytes]:
        """Description and bytes of a checkpoint; DamagedError if they are not what was written."""
        described, stored = self.paths(step)
        for path in (described, stored):
            if not os.path.lexists(path):
                raise DamagedError(f"{path}: is missing")
        about = self.described(step)
        data = files.read(stored)
        if files.digest(data) != about["tensors"]:
            raise DamagedError(f"{stored}: is damaged (its SHA-256 differs)")
        return about, data

    def described(self, step: int) -> dict[str, Any]:
        """The description of a checkpoint, without its tensors."""
        path, stored = self.paths(step)
        try:
            about = decode_document(files.read(path, files.DOCUMENT))
            require(about, {"step": int, "link": str, "tensors": str})
            if about["step"] != step:
                raise DamagedError(f"it describes step {about['step']}")
        except DamagedError as error:
            raise DamagedError(f"{path}: is damaged ({error}), so {stored.name} cannot be checked") from None
        return about

    def links(self) -> dict[int, str]:
        """The last row before each checkpoint, by step; checkpoints that cannot be read are left out."""
        found = {}
        for step in self.steps():
            with contextlib.suppress(UserError):
                found[step] = self.described(step)["link"]
        return found

    def remove(self, step: int) -> None:
        for path in self.paths(step):
            files.remove(path, self.guard)


def missing(folder: Path, step: int | None, steps: list[int]) -> UserError:
    """The error for a checkpoint that does not exist."""
    which = "" if step is None else f" of step {step}"
    return UserError(f"{folder}: has no checkpoint{which}; it has {steps}")
