"""Who may import whom, over the real import graph, and what the core may not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "twoclocks"

BELOW: dict[str, set[str]] = {  # folder: the other folders it may import
    "core": set(),
    "rules": {"core"},
    "models": {"core"},
    "objectives": {"core"},
    "clocks": {"core"},
    "store": {"core"},
    "data": {"core", "rules"},
    "oracles": {"core", "rules", "data"},
    "training": {"core", "data", "objectives", "store"},
    "evaluation": {"core", "rules", "data"},
    "experiment": {"core", "rules", "models", "objectives", "clocks", "store", "data", "training", "evaluation"},
    "testing": {"core", "rules", "models", "objectives", "data"},
    "report": {"core", "rules", "models", "objectives", "clocks", "store", "data", "evaluation", "experiment"},
    "papers": {"core", "store", "experiment", "clocks"},
    "sweeps": {"core", "store", "experiment", "training"},
    "presets": set(),
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
            assert node.level == 0, f"{path}: use absolute imports"
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


def folders() -> list[str]:
    return sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__")


def test_every_folder_has_a_layer() -> None:
    assert set(folders()) <= set(BELOW)


@pytest.mark.parametrize("folder", folders())
def test_folder_imports_only_what_lies_below(folder: str) -> None:
    for path in (SOURCE / folder).rglob("*.py"):
        ours = {module.split(".")[1] for module in imports(path) if module.startswith("twoclocks.")}
        ours &= set(BELOW)
        assert ours - {folder} <= BELOW[folder], f"{path.name} imports {ours - {folder} - BELOW[folder]}"


def test_clocks_do_not_import_torch() -> None:
    assert not any(m.split(".")[0] == "torch" for path in (SOURCE / "clocks").rglob("*.py") for m in imports(path))


@pytest.mark.parametrize("module", ["twoclocks", "twoclocks.clocks", "twoclocks.cli"])
def test_light_modules_do_not_load_torch(module: str) -> None:
    code = f"import sys, {module}; assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_training_core_loads_no_drawing_library() -> None:
    code = "import sys, twoclocks.experiment; assert not {'matplotlib', 'jinja2', 'torchvision'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_that_can_run_foreign_code_is_called() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in {"eval", "exec", "torch.load", "yaml.load", "pickle.load", "pickle.loads"}, path
        assert "pickle" not in {module.split(".")[0] for module in imports(path)}, path
