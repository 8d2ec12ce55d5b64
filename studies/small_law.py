"""A law, a forecast from it, and whether the forecast came true: small GPTs on the CPU, in half an hour.

    python studies/small_law.py --work DIR --out results/small_law.json

Pilots are the sweep of docs/examples/law.yaml; then runs of twice the largest size are trained, which the law has not
seen. What is finished in DIR is not repeated.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from twoclocks.analysis.forecasts import forecast_running, forecast_sizes
from twoclocks.analysis.laws import fit_runs
from twoclocks.core.counts import TRIALS
from twoclocks.runs import Run
from twoclocks.runs.columns import STEP
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions
from twoclocks.sweeps import EXECUTORS, Sweep, read_plan, run_sweep
from twoclocks.sweeps.grid import SweepSettings, make_plan
from twoclocks.testing.runs import write_run

PILOTS = Path(__file__).parents[1] / "docs" / "examples" / "law.yaml"
SIZE = 512
LARGER = {"rule.length": 30, "training.steps": 12_000, "evaluation.evaluations": 40, "data.n": SIZE}
PARTS = (0.4, 0.6, 0.8)  # of τ_mem, at which a forecast of the new runs in training is tried


def finished(sweep: Sweep) -> list[Run]:
    return [Run(Path(row["path"])) for row in sweep.rows() if row["state"] == "finished"]


def in_training(run: Run, pilots: list[Run], work: Path) -> list[dict[str, Any]]:
    """What would have been foretold at some moments before τ_mem, from the run's rows until then."""
    columns, truth = run.metrics(), run.clocks().memory
    if truth.estimate is None:
        return []
    found = []
    for part in PARTS:
        looks = int((columns["step"] <= part * truth.estimate).sum())
        begun = {name: values[:looks] for name, values in columns.items() if name not in (STEP, TRIALS)}
        half = write_run(work / f"{run.path.name}-{part}", run.settings, begun, finished=False)
        foretold, judged = forecast_running(half, pilots)
        step = float(columns["step"][looks - 1])
        found.append({"at": step, "part": part, **foretold.as_json(), "judged": judged.as_json()})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    plan, executor = read_plan(PILOTS), EXECUTORS.create("local", workers=2)
    pilots = finished(run_sweep(plan, arguments.work / "pilots", executor))
    larger = make_plan(SweepSettings(name="larger", base="demo-gpt", set=LARGER, seeds={"training": 2}))
    checks = finished(run_sweep(larger, arguments.work / "larger", EXECUTORS.create("local", workers=2)))
    laws = {clock: fit_runs(pilots, clock).as_json() for clock in ("tau_mem", "tau_rule", "tau_gap")}  # type: ignore[arg-type]
    (foretold,), judged = forecast_sizes(pilots, [SIZE])
    came = [
        {"tau_mem": run.clocks().memory.as_json(), "in_training": in_training(run, pilots, arguments.work / "begun")}
        for run in checks
    ]
    result = {
        "what": "the law of small GPTs, its forecast of a larger size, and what came",
        "command": "python studies/small_law.py --work DIR --out results/small_law.json",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cpu"),
        "settings": {"pilots": PILOTS.name, "size": SIZE},
        "laws": laws,
        "forecast": {**foretold.as_json(), "judged": judged.as_json()},
        "came": came,
    }
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
