"""Measured onsets of the gap beside those that the kernel predicts, for every committed full-batch run (NTK limit).

    python studies/kernel_prediction.py --rows results/campaign --out results/kernel_prediction.json

Gradient descent at the preset's rate, over the noise and over P up to ``--largest`` (the prediction of 2,048 points
takes 45 s on one core).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from twoclocks.papers.early_stopping.kernel_prediction import predicted_gap_onset
from twoclocks.papers.early_stopping.kernel_runs import THRESHOLD, Axis, axis_runs
from twoclocks.papers.records import Record, Records
from twoclocks.runs.rows import read_rows
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

AXES: tuple[Axis, ...] = ("noise", "size")


def compared(one: Record, measured: float) -> dict[str, Any]:
    predicted = predicted_gap_onset(one.run.settings, THRESHOLD)
    found = {"n": one.n, "sigma": one.value("objective.sigma"), "seed": one.seed, "measured": measured}
    return {**found, "predicted": predicted, "ratio": measured / predicted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("results/campaign"))
    parser.add_argument("--largest", type=int, default=1024)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    records, found = Records.of(read_rows(arguments.rows)), {}
    for axis in AXES:
        runs = axis_runs(records, "p2-kernel", axis)
        for one, onset in zip(runs.records, runs.onsets(), strict=True):
            if one.n <= arguments.largest and onset.estimate is not None:
                found[one.run.label, one.value("objective.sigma")] = compared(one, onset.estimate)
                print(found[one.run.label, one.value("objective.sigma")], flush=True)
    ratios = [one["ratio"] for one in found.values()]
    where = {"commit": commit(), "versions": versions(), "machine": machine("cpu")}
    command = "python studies/kernel_prediction.py --rows results/campaign --out results/kernel_prediction.json"
    numbers = {"threshold": THRESHOLD, "lowest_ratio": min(ratios), "highest_ratio": max(ratios)}
    write_json(arguments.out, {**where, "command": command, **numbers, "runs": [*found.values()]})


if __name__ == "__main__":
    main()
