"""Nothing at run time asks the network, and no optional package sends usage statistics or error reports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from twoclocks.core.telemetry import TELEMETRY, telemetry_off

FOLDER = Path(__file__).parent / "offline"


@pytest.mark.slow
def test_commands_monitor_and_trackers_ask_no_other_machine(tmp_path: Path) -> None:
    """All processes that are started from here have the same watch, for example the workers of a sweep."""
    log = tmp_path / "asked"
    unset = {*TELEMETRY, "PYTEST_CURRENT_TEST", "CI"}  # MLflow sends nothing where one of the last two is set
    kept = {key: value for key, value in os.environ.items() if key not in unset}
    shutil.copy(FOLDER / "network_watch.py", tmp_path / "sitecustomize.py")  # which Python imports at its start
    path = os.pathsep.join([str(tmp_path), str(FOLDER.parent), *sys.path])
    places = {"OFFLINE_LOG": str(log), "TRACKIO_DIR": str(tmp_path / "trackio"), "WANDB_SILENT": "true"}
    environment = {**kept, **places, "PYTHONPATH": path, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(FOLDER / "all_commands.py"), str(tmp_path)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("refused\n"), done.stderr[-3000:]
    asked = log.read_text(encoding="utf-8").splitlines()
    assert len(asked) == 1 and "192.0.2.1" in asked[0], asked


def test_the_users_own_choice_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TELEMETRY:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "false")
    telemetry_off()
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "false" and os.environ["WANDB_ERROR_REPORTING"] == "false"
    for name in TELEMETRY:
        monkeypatch.delenv(name)


def test_the_documentation_names_every_variable() -> None:
    page = (Path(__file__).parents[1] / "docs" / "integrations.md").read_text(encoding="utf-8")
    for name, (value, package) in TELEMETRY.items():
        assert f"| {package} | `{name}` | `{value}` |" in page
