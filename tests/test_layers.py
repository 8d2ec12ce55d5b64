"""Who may import whom, over the real import graph, and what the core may not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import twoclocks as tc

SOURCE = Path(__file__).parents[1] / "src" / "twoclocks"

FIELD = {"core", "rules", "models", "objectives", "clocks", "store", "data"}
BELOW: dict[str, set[str]] = {  # folder: the other folders it may import
    "core": set(),
    "rules": {"core"},
    "models": {"core"},
    "objectives": {"core"},
    "kernels": {"core", "models", "objectives"},
    "clocks": {"core"},
    "store": {"core"},
    "monitor": {"core", "clocks", "store"},
    "integrations": {"core", "clocks", "monitor"},
    "data": {"core", "rules"},
    "oracles": {"core", "rules", "data"},
    "training": {"core", "models", "kernels", "data", "objectives", "store"},
    "evaluation": {"core", "rules", "data"},
    "runs": {*FIELD, "monitor", "training", "evaluation"},
    "dissection": {*FIELD, "oracles", "training", "evaluation", "runs"},
    "analysis": {*FIELD, "evaluation", "runs", "dissection"},
    "testing": {"core", "rules", "models", "objectives", "data", "store", "runs", "evaluation", "dissection"},
    "report": {*FIELD, "monitor", "evaluation", "runs", "analysis", "dissection"},
    "bench": {*FIELD, "kernels", "evaluation", "training", "runs", "report"},
    "papers": {*FIELD, "oracles", "training", "evaluation", "runs", "analysis", "dissection", "report", "sweeps"},
    "sweeps": {"core", "clocks", "store", "runs", "training"},
    "widen": {*FIELD, "evaluation", "runs", "analysis", "report", "sweeps"},
    "commands": {
        *("core", "clocks", "data", "store", "runs", "analysis", "dissection", "report", "bench", "papers", "sweeps"),
        "widen",
    },
    "presets": set(),
    "templates": {"core", "rules", "models", "objectives", "evaluation", "dissection", "report"},  # to be copied
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


@pytest.mark.parametrize("folder", ["clocks", "monitor"])
def test_clocks_and_monitor_do_not_import_torch(folder: str) -> None:
    assert not any(m.split(".")[0] == "torch" for path in (SOURCE / folder).rglob("*.py") for m in imports(path))


LIGHT = [
    *("twoclocks", "twoclocks.clocks", "twoclocks.monitor", "twoclocks.cli", "twoclocks.rules", "twoclocks.data"),
    "twoclocks.integrations",
    *(
        "twoclocks.runs.load",
        "twoclocks.runs.presets",
        "twoclocks.store",
        "twoclocks.sweeps",
        "twoclocks.report.summary",
    ),
]


def test_light_modules_do_not_load_torch() -> None:
    code = f"import sys, {', '.join(LIGHT)}; assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


INTERNAL = {"bench", "commands", "core", "kernels", "papers", "report", "training"}  # folders that users do not import
EACH_NAME_IN_A_NEW_PROCESS = """
import os, sys, torch, twoclocks as tc
for name in tc.__all__:
    if os.fork() == 0:
        getattr(tc, name)
        os._exit(0)
    assert os.wait()[1] == 0, name
"""


@pytest.mark.slow
def test_the_public_names_work_without_a_prior_import() -> None:
    packages = {name for name in folders() if (SOURCE / name / "__init__.py").exists()}
    names = {*tc.__all__}
    assert packages - INTERNAL == names & packages and dir(tc) == sorted(names)
    done = subprocess.run([sys.executable, "-c", EACH_NAME_IN_A_NEW_PROCESS], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_training_core_loads_no_drawing_library() -> None:
    code = "import sys, twoclocks.runs; assert not {'matplotlib', 'jinja2', 'torchvision'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


FOREIGN_CALLS = {  # by full name: each can run code that somebody put into a file
    *("eval", "exec", "compile", "__import__", "torch.load", "torch.jit.load", "torch.hub.load", "numpy.load"),
    *("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.unsafe_load_all", "yaml.full_load", "yaml.full_load_all"),
}
ASKED_FOR = {"monitor/descriptors.py": {"torch.jit.load"}}  # of a file that the user names in the call
FOREIGN_MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}


def foreign(source: str) -> set[str]:
    """Forbidden modules and calls in a source text, whatever names they were imported under."""
    tree = ast.parse(source)
    full: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            full |= {
                name.asname or name.name.split(".")[0]: name.name if name.asname else name.name.split(".")[0]
                for name in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            module = f"{node.module}.".removeprefix("twoclocks.core.lazy.")  # its torch is torch
            full |= {name.asname or name.name: f"{module}{name.name}" for name in node.names}
    found = {name for name in full.values() if name.split(".")[0] in FOREIGN_MODULES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, dot, rest = ast.unparse(node.func).partition(".")
            found |= {full.get(first, first) + dot + rest} & FOREIGN_CALLS
        found |= {keyword.arg for keyword in getattr(node, "keywords", []) if keyword.arg == "allow_pickle"}
    return found


def test_nothing_that_can_run_foreign_code_is_called() -> None:
    for path in SOURCE.rglob("*.py"):
        asked_for = ASKED_FOR.get(path.relative_to(SOURCE).as_posix(), set())
        assert foreign(path.read_text(encoding="utf-8")) == asked_for, path


def test_only_the_user_asks_for_a_descriptor() -> None:
    found = {path for path in SOURCE.rglob("*.py") if "load_descriptor(" in path.read_text(encoding="utf-8")}
    assert found == {SOURCE / "monitor" / "descriptors.py"}  # nothing that reads a state or a run loads its network


def test_files_of_the_user_are_imported_in_one_place_alone() -> None:
    loaders = ("spec_from_file_location", "SourceFileLoader", "exec_module", "runpy", "load_module")
    found = {path for path in SOURCE.rglob("*.py") if any(name in path.read_text(encoding="utf-8") for name in loaders)}
    assert found == {SOURCE / "core" / "plugins.py"}
    askers = {path.parent.name for path in SOURCE.rglob("*.py") if "import_file" in path.read_text(encoding="utf-8")}
    assert not askers & {"store", "report", "dissection", "analysis"}  # what reads run directories only checks names


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads as read",
        "import torch as t\nt.load('x')",
        "from torch import load\nload('x')",
        "from yaml import load as safe\nsafe('x')",
        "from twoclocks.core.lazy import torch\ntorch.jit.load('x')",
        "import yaml\nyaml.unsafe_load('x')",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "def f():\n    import cloudpickle.fast",
        "eval('1')",
    ],
)
def test_foreign_code_is_recognised(source: str) -> None:
    assert foreign(source)
    assert not foreign("from safetensors.torch import load\nload(b'')\nimport yaml\nyaml.safe_load('')")
