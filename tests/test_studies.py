"""Programs beside the package: each can be imported."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted([*(ROOT / "studies").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")])


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_program_can_be_imported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that moved inside the package breaks the import, and no other test would see it."""
    if "import triton" in path.read_text(encoding="utf-8"):
        pytest.importorskip("triton", reason="kernels need Triton, which exists for Linux alone")
    monkeypatch.syspath_prepend(path.parent)  # as for a program that is run
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    assert callable(module.main)
