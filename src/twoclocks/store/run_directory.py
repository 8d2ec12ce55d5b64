"""A run on disk: what was asked (manifest), what was measured (metrics), what was learned (checkpoints).

manifest.json                     settings, versions, device, chance levels, status
metrics.jsonl                     one line an evaluation, only ever appended
checkpoints/step-000001000.*      safetensors (weights, optimizer) and JSON (step, SHA-256)
samples/step-000001000.safetensors  the first few decoded samples of an evaluation
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoclocks.core.errors import UserError
from twoclocks.store.files import append_line, digest, write_atomic, write_json

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    step: int
    tensors: dict[str, Tensor]
    about: dict[str, Any]


class RunDirectory:
    """Reads and writes one run directory; knows nothing of what the numbers mean."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> RunDirectory:
        """A new run; refuses a folder that already holds something."""
        check_free(path)
        (path / "checkpoints").mkdir(parents=True)
        (path / "samples").mkdir()
        run = cls(path)
        run.write_manifest({"format": FORMAT, "created": now(), "status": "running", **manifest})
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        if not (path / "manifest.json").is_file():
            raise UserError(f"{path}: is not a run directory (no manifest.json); give the folder that a run wrote")
        run = cls(path)
        manifest = run.manifest()
        version = manifest.get("format")
        if version != FORMAT:
            raise UserError(f"{path}: has format {version}, this version reads {FORMAT}; use the version that wrote it")
        missing = [key for key in ("settings", "metrics", "status") if key not in manifest]
        if missing:
            raise UserError(f"{path / 'manifest.json'}: lacks {', '.join(missing)}; restore it or run again")
        return run

    def manifest(self) -> dict[str, Any]:
        try:
            value = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(
                f"{self.path / 'manifest.json'}: cannot be read ({error}); restore it or run again"
            ) from None
        if not isinstance(value, dict):
            raise UserError(f"{self.path / 'manifest.json'}: is not a manifest; restore it or run again")
        return value

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        write_json(self.path / "manifest.json", dict(manifest))

    def set_status(self, status: str, **more: Any) -> None:
        self.write_manifest({**self.manifest(), "status": status, "updated": now(), **more})

    def append_metrics(self, row: Mapping[str, float]) -> None:
        """NaN (the mean over no sample) is stored as null: JSON has no NaN."""
        clean = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        append_line(self.path / "metrics.jsonl", json.dumps(clean, allow_nan=False))

    def metrics(self) -> Iterator[dict[str, float]]:
        """Rows in order; a last line that a crash tore is left out."""
        path = self.path / "metrics.jsonl"
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        names: set[str] | None = None
        for number, line in enumerate(lines[:-1]):
            try:
                row = {key: float("nan") if value is None else value for key, value in json.loads(line).items()}
                names = names or set(row)
                if set(row) != names or not all(isinstance(value, int | float) for value in row.values()):
                    raise ValueError("other columns than the rows before")
            except (ValueError, AttributeError):
                raise UserError(f"{path}: line {number + 1} is damaged; restore the file or run again") from None
            yield row

    def write_checkpoint(self, step: int, tensors: Mapping[str, Tensor], keep: int = 2) -> None:
        """The JSON beside the tensors is written last: without it, or with another hash, there is no checkpoint."""
        from safetensors.torch import save

        data = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        stem = self.path / "checkpoints" / f"step-{step:09d}"
        write_atomic(stem.with_suffix(".safetensors"), data)
        write_json(stem.with_suffix(".json"), {"step": step, "sha256": digest(data), "bytes": len(data)})
        for old in self.checkpoint_steps()[:-keep]:
            for suffix in (".json", ".safetensors"):
                (self.path / "checkpoints" / f"step-{old:09d}{suffix}").unlink(missing_ok=True)

    def checkpoint_steps(self) -> list[int]:
        return steps_in(self.path / "checkpoints", ".json")

    def read_checkpoint(self, step: int | None = None) -> Checkpoint:
        """The checkpoint of a step, by default the last; a damaged one is refused."""
        from safetensors.torch import load

        steps = self.checkpoint_steps()
        if not steps or (step is not None and step not in steps):
            raise UserError(
                f"{self.path}: has no checkpoint{'' if step is None else f' of step {step}'}; it has {steps}"
            )
        stem = self.path / "checkpoints" / f"step-{steps[-1] if step is None else step:09d}"
        about = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        data = stem.with_suffix(".safetensors").read_bytes()
        if digest(data) != about["sha256"]:
            raise UserError(f"{stem}.safetensors: is damaged (SHA-256 differs); use another checkpoint")
        return Checkpoint(about["step"], load(data), about)

    def write_samples(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        from safetensors.torch import save

        write_atomic(self.path / "samples" / f"step-{step:09d}.safetensors", save(dict(tensors)))

    def sample_steps(self) -> list[int]:
        return steps_in(self.path / "samples", ".safetensors")

    def read_samples(self, step: int) -> dict[str, Tensor]:
        from safetensors import SafetensorError
        from safetensors.torch import load

        path = self.path / "samples" / f"step-{step:09d}.safetensors"
        try:
            return load(path.read_bytes())
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path}: cannot be read ({error}); restore it or remove it") from None


def steps_in(folder: Path, suffix: str) -> list[int]:
    """The steps for which a folder holds a file; other files are not ours."""
    found = (re.fullmatch(r"step-(\d+)", path.stem) for path in folder.glob(f"step-*{suffix}"))
    return sorted(int(match[1]) for match in found if match is not None)


def runs_in(folder: Path) -> list[Path]:
    """The folder itself if it is a run, else the runs directly inside it; if there are none, itself, for its error."""
    if (folder / "manifest.json").exists():
        return [folder]
    return sorted(path.parent for path in folder.glob("*/manifest.json")) or [folder]


def check_free(path: Path) -> None:
    """Refuse an output folder that holds a run or anything else, before anything is written."""
    if (path / "manifest.json").exists():
        raise UserError(f"--out: {str(path)!r} already holds a run; choose another folder or remove it")
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise UserError(f"--out: {str(path)!r} is not an empty folder; choose another one")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
