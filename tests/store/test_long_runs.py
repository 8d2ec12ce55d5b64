"""A run of many evaluations: appending reads nothing, and resuming reads each file a fixed number of times."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load

from twoclocks.runs import Run
from twoclocks.store import RunDirectory, files
from twoclocks.testing.copies import without_sync


@pytest.mark.parametrize("evaluations", [10, 300])
def test_what_is_read_does_not_grow_with_the_evaluations(
    tiny_gpt: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluations: int
) -> None:
    reads: Counter[str] = Counter()
    read = files.read

    def counted(path: Path, *more: Any) -> bytes:
        reads[path.name] += 1
        return read(path, *more)

    rows, tensors = tiny_gpt.directory.journal.rows(), tiny_gpt.directory.read_checkpoint().tensors
    directory = RunDirectory.create(tmp_path / "long", tiny_gpt.manifest)
    directory.append_metrics({**rows[0], "step": 0})
    monkeypatch.setattr(files, "read", counted)
    with without_sync():
        for step in range(1, evaluations + 1):
            directory.append_metrics({**rows[0], "step": step})
            directory.timings.append({"step": step, "seconds": float(step), "evaluation_seconds": 1.0})
    assert reads == {"manifest.json": 1}  # for the first link of the timings
    directory.write_checkpoint(evaluations, tensors)
    reads.clear()
    again = RunDirectory(tmp_path / "long")
    again.rewind(again.last_good())
    assert reads["metrics.jsonl"] <= 3 and reads["timings.jsonl"] <= 2
    assert again.journal.last_step == evaluations and len(again.journal.rows()) == evaluations + 1
    assert (
        load(read(tmp_path / "long" / "checkpoints" / f"step-{evaluations:09d}.safetensors")).keys() == tensors.keys()
    )
