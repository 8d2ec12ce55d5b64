"""Compare the clocks of fast and plain code paths: the same runs, and the distance of onsets in evaluations.

    python benchmarks/same_clocks.py --out results/same_clocks.json --work DIR
    python benchmarks/same_clocks.py --out results/same_clocks.json --work DIR --plain results/same_clocks.json

The plain diffusion run takes minutes. ``--plain`` takes the plain runs from an earlier result, with their commit, where
that says with which settings they were made.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from twoclocks.clocks import Onset
from twoclocks.core.config import flat, to_mapping
from twoclocks.evaluation import SampleAccuracy, SampleMemorization
from twoclocks.runs import load_settings, run
from twoclocks.runs.columns import LOSS, STEP
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

PLAIN = {"training.precision": "tf32", "training.kernels": "plain", "training.capture": False}
FREE = {*PLAIN, "evaluation.keep_samples", "evaluation.keep_weights", "training.threads"}  # do not change a clock
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "DiT-mini, G=3, N=256, batch 256": (
        "p1-dit-mini",
        {
            "data.n": 256,
            "objective.sigma_data": 0.5,
            "training.steps": 30_000,
            "evaluation.evaluations": 45,
            "evaluation.first": 30,
        },
    ),
    "GPT-mini, G=3, N=1,024, batch 256": (
        "p1-gpt-mini",
        {
            "data.n": 1024,
            "training.batch": 256,
            "training.steps": 2500,
            "evaluation.evaluations": 45,
            "evaluation.first": 20,
        },
    ),
}


def clocks_of(preset: str, change: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run a preset with changes and return its clocks, time and curves."""
    done = run(load_settings(preset, {"training.device": "cuda", **change}), folder)
    found = done.clocks()
    values = {name: columns.tolist() for name, columns in done.metrics().items() if name in CURVES}
    return {
        "tau_rule": found.rule.as_json(),
        "tau_mem": found.memory.as_json(),
        "seconds": round(done.status["seconds"], 1),
        "settings": to_mapping(done.settings, whole=True),
        "curves": values,
    }


def plain_runs(path: Path) -> dict[str, dict[str, Any]]:
    """The plain runs of an earlier result, by case, that say how they were made."""
    earlier = json.loads(path.read_text("utf-8"))
    runs = {case["case"]: {"commit": earlier["commit"], **case["plain"]} for case in earlier["cases"]}
    return {label: run for label, run in runs.items() if "settings" in run}


def check_same(label: str, run: dict[str, Any], preset: str, change: dict[str, Any]) -> None:
    """Refuse a plain run whose settings, as far as it has them, are not those of the fast one."""
    ours = flat(to_mapping(load_settings(preset, {"training.device": "cuda", **change}), whole=True))
    for name, value in flat(run["settings"]).items():
        if name.startswith(("rule.", "data.", "model.", "objective.", "training.", "evaluation.")) and name not in FREE:
            assert ours.get(name, value) == value, f"{label}: {name} is {value} in the plain run, and {ours[name]} here"


CURVES = (STEP, LOSS, SampleAccuracy.name, SampleMemorization.name)


def evaluations_apart(schedule: tuple[int, ...], fast: dict[str, Any], plain: dict[str, Any]) -> int | None:
    """Number of evaluations between two onsets; None where one was not observed."""
    if fast["status"] != "observed" or plain["status"] != "observed":
        return None
    return schedule.index(int(fast["upper"])) - schedule.index(int(plain["upper"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--plain", type=Path, help="result to take the plain runs from")
    arguments = parser.parse_args()
    given = plain_runs(arguments.plain) if arguments.plain else {}
    reused = f" --plain results/{arguments.plain.name}" if arguments.plain else ""
    result: dict[str, Any] = {
        "command": f"python benchmarks/same_clocks.py --out results/{arguments.out.name} --work DIR{reused}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cuda"),
        "cases": [],
    }
    for number, (label, (preset, change)) in enumerate(CASES.items()):
        schedule = load_settings(preset, change).schedule
        if label in given:
            check_same(label, given[label], preset, change)
        fast = clocks_of(preset, change, arguments.work / f"fast-{number}")
        plain = given.get(label) or clocks_of(preset, change | PLAIN, arguments.work / f"plain-{number}")
        differences = {
            clock: evaluations_apart(schedule, fast[clock], plain[clock]) for clock in ("tau_rule", "tau_mem")
        }
        result["cases"].append({"case": label, "evaluations_apart": differences, "fast": fast, "plain": plain})
        for clock, distance in differences.items():
            shown = {name: str(Onset(**onset_fields(one[clock]))) for name, one in (("fast", fast), ("plain", plain))}
            print(
                f"{label}: {clock} {shown['fast']} fast, {shown['plain']} plain: {distance} evaluations apart",
                flush=True,
            )
        write_json(arguments.out, result)


def onset_fields(onset: dict[str, Any]) -> dict[str, Any]:
    upper = onset["upper"] if onset["upper"] is not None else float("inf")
    return {"lower": onset["lower"], "upper": upper, "status": onset["status"]}


if __name__ == "__main__":
    main()
