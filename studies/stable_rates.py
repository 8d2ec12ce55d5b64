"""The largest learning rates at which P2's networks converge: one hidden layer over P, and a U-Net on a grammar.

    python studies/stable_rates.py --device cuda --out results/stable_rates.json

All searches run at the same time, with a process for each seed. With ``--only``, the other searches of the file stay as
they are; each has its own commit and machine. P2 compares optimizers at these rates; the reproduction's grids
(`papers/early_stopping/optimizer_runs.py`) use what is written here.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from twoclocks.core.errors import UserError
from twoclocks.papers.early_stopping.stable_rate import largest_stable_rate
from twoclocks.runs import RunSettings, load_settings
from twoclocks.store.files import read, write_json
from twoclocks.store.provenance import commit, machine, versions

SEEDS, FACTOR = 3, 1.25
# By preset; more points are trained longer. On the grammar, a rate that held for 2,000 steps (SGD with momentum, 135)
# diverged after 12,000.
STEPS = {"p2-kernel": 600, "p2-rhm-optimizers-authors": 32_768}
KERNEL = {"evaluation.samples": 256, "clocks.above_chance": True}
GRAMMAR = {"model.width": 512, "evaluation.samples": 256, "objective.sampler_levels": 250, "clocks.above_chance": True}


def searches() -> dict[str, tuple[str, dict[str, Any]]]:
    """Preset and changes of every search, by name; the rate is where it begins."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for n in (128, 512, 2048):
        for optimizer, rate in (("sgd", 100.0), ("adam", 0.1)):
            change = {"data.n": n, "training.batch": n, "training.optimizer": optimizer, "training.learning_rate": rate}
            found[f"kernel-{optimizer}-p{n}"] = ("p2-kernel", {**KERNEL, **change})
    for momentum, rate in ((0.0, 200.0), (0.9, 40.0)):
        change = {"training.optimizer": "sgd", "training.momentum": momentum, "training.learning_rate": rate}
        found[f"grammar-sgd-{momentum:g}"] = ("p2-rhm-optimizers-authors", {**GRAMMAR, **change})
    found["grammar-adam"] = ("p2-rhm-optimizers-authors", {**GRAMMAR, "training.learning_rate": 0.1})
    return found


def steps_of(settings: RunSettings) -> int:
    """As long as the runs of one hidden layer, whose rate must hold to the end; the first eighth of the grammar's."""
    return max(STEPS[settings.name], 2 * settings.data.n if settings.name == "p2-kernel" else 0)


def steps_of_search(name: str) -> int:
    return steps_of(load_settings(*searches()[name]))


def search(name: str, device: str, pool: ProcessPoolExecutor) -> dict[str, Any]:
    preset, change = searches()[name]
    settings = load_settings(preset, {**change, "training.device": device, "training.threads": 1})
    try:
        report = lambda trial: print(name, trial, flush=True)  # noqa: E731
        found = largest_stable_rate(settings, steps_of(settings), SEEDS, FACTOR, report, pool.map)
    except UserError as error:
        return {"preset": preset, "change": change, "error": str(error)}
    print(f"{name}: {found}", flush=True)
    return {"preset": preset, "change": change, **found.as_json()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", default=[*searches()], choices=[*searches()])
    arguments = parser.parse_args()
    count = len(arguments.only)
    with (
        ProcessPoolExecutor(count * SEEDS, mp_context=get_context("spawn")) as pool,
        ThreadPoolExecutor(count) as searching,
    ):
        waiting = {name: searching.submit(search, name, arguments.device, pool) for name in arguments.only}
        found = {name: one.result() for name, one in waiting.items()}
    about = {"seeds": SEEDS, "factor": FACTOR}
    where = {"commit": commit(), "versions": versions(), "machine": machine(arguments.device)}
    before = json.loads(read(arguments.out))["searches"] if arguments.out.is_file() else {}
    now = {name: {**where, "steps": steps_of_search(name), **one} for name, one in found.items()}
    command = f"python studies/stable_rates.py --device {arguments.device} --out results/stable_rates.json"
    write_json(arguments.out, {**where, "command": command, **about, "searches": {**before, **now}})


if __name__ == "__main__":
    main()
