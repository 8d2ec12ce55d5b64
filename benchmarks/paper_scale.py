"""How long does a run of a preset take, and when do its clocks tick? By default P1's baseline, whole, on one GPU.

    python benchmarks/paper_scale.py --out results/paper_scale.json --work DIR

The run lives in DIR and goes on from its last checkpoint if the command was stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from twoclocks.core.config import to_mapping
from twoclocks.evaluation import SampleAccuracy, SampleMemorization
from twoclocks.runs import load_settings, run
from twoclocks.runs.columns import LOSS, LOSS_HELD_OUT, LOSS_TRAIN, STEP
from twoclocks.runs.session import Progress
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

KEPT = (STEP, LOSS, LOSS_TRAIN, LOSS_HELD_OUT, SampleAccuracy.name, SampleMemorization.name)


def say(progress: Progress) -> None:
    if progress.evaluated:
        print(f"step {progress.step:,}: {progress.seconds_left:,.0f} s left", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--preset", default="p1-dit-mini", help="another one, such as demo-gpt, to try the command")
    arguments = parser.parse_args()
    settings = load_settings(arguments.preset)
    done = run(settings, arguments.work, say)
    columns, timings, clocks = done.metrics(), done.timings(), done.clocks()
    result: dict[str, Any] = {
        "command": f"python benchmarks/paper_scale.py --preset {arguments.preset} --out {arguments.out} --work DIR",
        "commit": commit(),
        "versions": versions(),
        "machine": machine(settings.training.device),
        "preset": arguments.preset,
        "settings": to_mapping(settings),
        "seconds": round(done.status["seconds"], 1),
        "evaluation_seconds": round(float(timings["evaluation_seconds"].sum()), 1),
        "attempts": len(done.status["attempts"]),
        "evaluations": len(columns["step"]),
        **clocks.as_json(),
        "curves": {name: columns[name].tolist() for name in KEPT},
    }
    write_json(arguments.out, result)
    print(f"{result['seconds'] / 60:.1f} minutes; τ_rule {clocks.rule}, τ_mem {clocks.memory}, window {clocks}")


if __name__ == "__main__":
    main()
