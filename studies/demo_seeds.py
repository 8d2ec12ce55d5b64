"""Does the demo give the same verdict for every seed? Runs it with several seeds and records the verdicts.

    python studies/demo_seeds.py --seeds 6 --work /tmp/demo-seeds --out results/demo_seeds.json

All three seeds (data, training, evaluation noise) change together. Finished seeds in the work folder are not repeated.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from twoclocks.report.summary import summarise
from twoclocks.runs import load_run
from twoclocks.store.files import write_json

PRESETS = ("demo", "demo-gpt")


def shared_value(values: Iterable[Any]) -> Any:
    """The value that all runs share, or None if they differ."""
    found = list(values)
    return found[0] if all(value == found[0] for value in found) else None


def run_seed(seed: int, work: Path, threads: int) -> list[dict[str, Any]]:
    """Run the demo with one seed, and return one row of results per preset."""
    out = work / f"seed-{seed}"
    if not (out / "report.html").exists():
        shutil.rmtree(out, ignore_errors=True)
        settings = {"training.seed": seed, "data.seed": seed, "evaluation.seed": seed, "training.threads": threads}
        options = [option for key, value in settings.items() for option in (f"--{key}", str(value))]
        command = [sys.executable, "-m", "twoclocks.cli", "demo", "--out", str(out), "--json", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = []
    for preset in PRESETS:
        run = load_run(out / preset)
        row = {key: value for key, value in summarise(run).items() if key not in ("path", "last", "seeds")}
        source = {key: run.manifest[key] for key in ("settings", "commit", "versions", "machine")}
        rows.append({"seed": seed, **row, "seconds": round(run.status["seconds"], 1), **source})
        print(seed, preset, run.clocks().rule, run.clocks().memory, run.clocks(), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(arguments.workers) as pool:
        found = list(pool.map(lambda s: run_seed(s, arguments.work, arguments.threads), range(arguments.seeds)))
    rows = [row for rows in found for row in rows]
    result = {
        "what": "the demo with several seeds: both clocks and the verdict of each run",
        "command": f"python studies/demo_seeds.py --seeds {arguments.seeds} --work DIR --out FILE",
        **{key: shared_value(row.pop(key) for row in rows) for key in ("commit", "versions", "machine")},
        "workers": arguments.workers,
        "open": {preset: sum(r["verdict"] == "open" for r in rows if r["name"] == preset) for preset in PRESETS},
        "seeds": arguments.seeds,
        "runs": rows,
    }
    write_json(arguments.out, result)
    print(json.dumps(result["open"]))


if __name__ == "__main__":
    main()
