"""Programs beside the package: each can be imported and collects what it says."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from twoclocks.runs import Run

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted([*(ROOT / "studies").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")])


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_program_can_be_imported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that moved inside the package breaks the import, and no other test would see it."""
    monkeypatch.syspath_prepend(path.parent)  # as for a program that is run
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    assert callable(module.main)


def test_a_collected_sweep_holds_clocks_and_curves_of_each_cell(tiny_gpt: Run, tmp_path: Path) -> None:
    cell = tmp_path / "sweep" / "cell"
    shutil.copytree(tiny_gpt.directory.path, cell)
    out = tmp_path / "found.json"
    spec = ROOT / "studies" / "campaign" / "02-gpt-law.yaml"
    words = [str(ROOT / "studies" / "collect_sweep.py"), str(cell.parent), "--spec", str(spec), "--out", str(out)]
    subprocess.run([sys.executable, *words], check=True)
    (only,) = json.loads(out.read_text())["runs"].values()
    assert only["curves"]["step"] == tiny_gpt.metrics()["step"].tolist()
    assert only["tau_mem"] == tiny_gpt.clocks().as_json()["tau_mem"]
