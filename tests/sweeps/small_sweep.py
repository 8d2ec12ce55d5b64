"""A sweep of tiny runs, for all tests that need a real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from twoclocks.store.files import digest

SMALL = {
    "rule.length": 8,
    "rule.group": 2,
    "data.n": 4,
    "training.steps": 60,
    "training.batch": 8,
    "training.learning_rate": 3e-3,
    "model.width": 16,
    "model.depth": 1,
    "model.heads": 2,
    "evaluation.samples": 100,
    "evaluation.steps": [0, 5, 20, 40, 60],
    "evaluation.loss_rows": 16,
    "clocks.memory_threshold": 0.3,
    "clocks.above_chance": True,
    "clocks.sustain": 1,
}


def write_spec(path: Path, **spec: Any) -> Path:
    shared = {key: value for key, value in {**SMALL, **spec.pop("set", {})}.items() if key not in spec.get("grid", {})}
    path.write_text(yaml.safe_dump({"base": "demo-gpt", "set": shared, **spec}, sort_keys=False))
    return path


def cell_contents(root: Path) -> dict[str, str]:
    """SHA-256 of rows and last weights of every cell."""
    found = {}
    for cell in sorted((root / "cells").iterdir()):
        last = sorted((cell / "checkpoints").glob("*.safetensors"))[-1]
        found[cell.name] = digest((cell / "metrics.jsonl").read_bytes()) + digest(last.read_bytes())
    return found
