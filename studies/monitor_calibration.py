"""How often the monitor stops by mistake, and how late it stops, by simulation with known truth.

    python studies/monitor_calibration.py --out results/monitor_calibration.json

A simulated model draws new points, and from some step on also noisy copies of training points. The monitor gets its
samples as any loop would give them. The true copy rate stays at the threshold (a stop under the policy "memory" is
false), or at a tenth of it (a stop under "caution" is too early), or it rises from 0 to four times the threshold: the
delay is the number of looks between the first one above the threshold and the stop (below 0: earlier).
"""

from __future__ import annotations

import argparse
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import twoclocks as tc
from twoclocks.clocks.settings import Policy
from twoclocks.core.arrays import Floats
from twoclocks.core.proportion import clopper_pearson
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

DIMENSIONS, ROWS, SAMPLES, LOOKS, THRESHOLD = 16, 150, 400, 20, 0.1
COPY_NOISE, TWIN_NOISE = 0.03, 0.05


@dataclass(frozen=True)
class Condition:
    """What the monitor knows about its data."""

    name: str
    held_out: int  # samples; 0: the chance level is not known
    twins: bool = False  # each training row has a near-duplicate


CONDITIONS = (
    Condition("400 held-out samples", 400),
    Condition("40 held-out samples", 40),
    Condition("chance not known", 0),
    Condition("each row has a noisy twin, 400 held-out samples", 400, twins=True),
)
STORIES = {
    "at the threshold": np.full(LOOKS, THRESHOLD),
    "a tenth of it": np.full(LOOKS, THRESHOLD / 10),
    "rising": np.linspace(0, 4 * THRESHOLD, LOOKS),
}


def simulated_stop(condition: Condition, policy: Policy, rates: Floats, rng: np.random.Generator) -> int | None:
    """The look after which a loop that obeys the monitor stops; None if it never does."""
    rows = rng.normal(size=(ROWS, DIMENSIONS))
    train = np.concatenate([rows, rows + TWIN_NOISE * rng.normal(size=rows.shape)]) if condition.twins else rows
    held_out = rng.normal(size=(condition.held_out, DIMENSIONS)) if condition.held_out else None
    monitor = tc.Monitor(train, held_out=held_out, policy=policy)
    for look, rate in enumerate(rates):
        samples = rng.normal(size=(SAMPLES, DIMENSIONS))
        copies = int(rng.binomial(SAMPLES, rate))
        originals = train[rng.integers(0, len(train), copies)]
        samples[:copies] = originals + COPY_NOISE * rng.normal(size=originals.shape)
        if monitor.observe(look + 1, samples).stop:
            return look
    return None


def summary(condition: Condition, policy: Policy, story: str, runs: int, seed: int) -> dict[str, Any]:
    """Stops of many simulated runs."""
    rates = STORIES[story]
    stops = [simulated_stop(condition, policy, rates, np.random.default_rng([seed, run])) for run in range(runs)]
    stopped = [stop for stop in stops if stop is not None]
    low, high = clopper_pearson(len(stopped), runs, 0.025)
    row: dict[str, Any] = {"condition": condition.name, "policy": policy, "story": story, "runs": runs}
    row |= {"stopped": len(stopped), "stopped_interval": [float(low), float(high)]}
    if story == "rising":
        first = int(np.argmax(rates > THRESHOLD))
        delays = [stop - first for stop in stopped]
        row |= {"delay_median": float(np.median(delays)), "delay_range": [min(delays), max(delays)]}
        row["late"] = sum(delay > 0 for delay in delays) + runs - len(stopped)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.getLogger("twoclocks").setLevel(logging.ERROR)
    policies: tuple[Policy, ...] = ("memory", "caution")
    rows = []
    for condition in CONDITIONS:
        for policy in policies:
            for story in STORIES:
                rows.append(summary(condition, policy, story, arguments.runs, arguments.seed))
                print(rows[-1], flush=True)
    result = {
        "command": f"python studies/monitor_calibration.py --out results/{arguments.out.name}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cpu"),
        "settings": {
            "dimensions": DIMENSIONS,
            "rows": ROWS,
            "samples": SAMPLES,
            "looks": LOOKS,
            "threshold": THRESHOLD,
            "sustain": tc.clocks.ClockSettings().sustain,
            "seed": arguments.seed,
        },
        "rows": rows,
    }
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
