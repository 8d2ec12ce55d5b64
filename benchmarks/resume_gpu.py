"""Is a run that was killed on a GPU the same run? Statistically: its clocks and losses against those of repetitions.

    python benchmarks/resume_gpu.py --out results/resume_gpu.json

Each preset is run several times undisturbed and several times with kill -9 at two random moments, all side by side.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from twoclocks.runs import load_run, load_settings
from twoclocks.runs.columns import LOSS_CUBE, LOSS_HELD_OUT, LOSS_TRAIN
from twoclocks.store.checkpoints import Checkpoints
from twoclocks.store.files import digest, write_json
from twoclocks.store.provenance import commit, machine, versions

PRESETS = ("demo", "demo-gpt")


def one(preset: str, out: Path, kills: int, seed: int) -> dict[str, Any]:
    """A run that is killed so many times and continued each time."""
    command = [sys.executable, "-m", "twoclocks", "run", preset, "--out", str(out), "--checkpoint-seconds", "1"]
    command += ["--training.device", "cuda", "--training.threads", "1"]
    generator, died, steps = random.Random(seed), 0, load_settings(preset).training.steps
    for number in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        goal = steps * (number + generator.random()) / (kills + 1)  # kill once a checkpoint of that step is there
        while process.poll() is None and max([0, *Checkpoints(out / "checkpoints").steps()]) <= goal:
            time.sleep(0.05)
        process.kill()
        died += process.wait() == -9
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    done = load_run(out)
    last = done.directory.checkpoint_steps()[-1]
    weights = (out / "checkpoints" / f"step-{last:09d}.safetensors").read_bytes()
    columns = done.metrics()
    return {
        "preset": preset,
        "kills": died,
        "attempts": [attempt["from_step"] for attempt in done.status["attempts"]],
        **done.clocks().as_json(),
        "last_losses": {name: float(columns[name][-1]) for name in (LOSS_TRAIN, LOSS_HELD_OUT, LOSS_CUBE)},
        "weights": digest(weights)[:16],
        "seconds": round(done.status["seconds"], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(16) as threads:
        waiting = [
            threads.submit(one, preset, Path(name) / f"{preset}-{kills}-{number}", kills, number)
            for preset in PRESETS
            for kills in (0, 2)
            for number in range(arguments.repetitions)
        ]
        runs = [future.result() for future in waiting]
    about = {"commit": commit(), "versions": versions(), "machine": machine("cuda")}
    write_json(arguments.out, {"command": "python benchmarks/resume_gpu.py --out FILE", **about, "runs": runs})
    for run in runs:
        print(run["preset"], run["kills"], run["attempts"], run["tau_rule"], run["tau_mem"], run["weights"])


if __name__ == "__main__":
    main()
