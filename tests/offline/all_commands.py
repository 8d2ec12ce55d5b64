"""Every command once, small, and the monitor with every tracker; for test_offline.py, which watches the network."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import numpy as np
from small_runs import SMALL_MODEL, TINY

import twoclocks as tc
from twoclocks.cli import main
from twoclocks.core.config import flat
from twoclocks.core.telemetry import TELEMETRY
from twoclocks.integrations.trackers import TRACKERS


def commands(folder: Path) -> None:
    short = {**flat(TINY), **flat({"model": SMALL_MODEL}), "training.steps": 6, "evaluation.steps": [0, 3, 6]}
    words = [word for key, value in short.items() for word in (f"--{key}", str(value))]
    (folder / "two.yaml").write_text("base: demo-gpt\nname: two\ngrid: {data.seed: [0, 1]}\n", encoding="utf-8")
    run, sweep = str(folder / "run"), str(folder / "two")
    assert main(["run", "demo-gpt", "--out", run, *words]) == 0
    assert main(["sweep", str(folder / "two.yaml"), "--workers", "1", "--out", sweep, *words]) == 0
    for command in (
        ["clocks", run],
        ["verify", run, sweep],
        ["report", run, sweep],
        ["dissect", run, "--views", "raster"],
        ["list", "rules"],
        ["data", "fetch", "digits", "--out", str(folder / "digits")],
        ["data", "show", str(folder / "digits")],
    ):
        assert main(command) == 0, command


def monitor(folder: Path) -> None:
    train = np.eye(6)
    watched = tc.Monitor(train, held_out=np.arange(120.0).reshape(20, 6))
    decision = watched.observe(1, train)
    watched.save(folder / "state.json")
    watched.report(folder / "page.html")
    watched.gallery(folder / "copies.png")
    places = {"tensorboard": {"folder": str(folder / "events")}, "wandb": {"folder": str(folder)}}
    places |= {"mlflow": {"place": str(folder / "mlruns")}, "trackio": {"project": "offline"}}
    for name in TRACKERS.names():
        tracker = TRACKERS.create(name, **places[name])
        tracker.log(decision.as_dict(), 1)
        tracker.image("copies", folder / "copies.png", 1)
        tracker.close()


if __name__ == "__main__":
    commands(Path(sys.argv[1]))
    monitor(Path(sys.argv[1]))
    import os

    from huggingface_hub.constants import HF_HUB_DISABLE_TELEMETRY
    from mlflow.telemetry.utils import is_telemetry_disabled
    from wandb.env import error_reporting_enabled

    assert all(os.environ[name] == value for name, (value, _) in TELEMETRY.items())
    assert HF_HUB_DISABLE_TELEMETRY and is_telemetry_disabled() and not error_reporting_enabled()
    try:  # what is refused and noted: the only such line
        socket.create_connection(("192.0.2.1", 9), timeout=1)
    except PermissionError:
        sys.stdout.write("refused\n")
