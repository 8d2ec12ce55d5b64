"""How often does each way to read a clock err, and how late does it notice? Simulated curves of known truth.

python studies/onset_errors.py --out results/onset_errors.json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.clocks import onset
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

WAYS: dict[str, dict[str, Any]] = {
    "plain first crossing": {"sustain": 1, "confidence": 0},
    "3 in a row (P1)": {"sustain": 3, "confidence": 0},
    "bounds, 1": {"sustain": 1},
    "bounds, 3 in a row (ours)": {"sustain": 3},
}
RUNS = 2000


def false_onsets(how: dict[str, Any], samples: int) -> float:
    """Rate 4%, threshold 5%, 100 looks: how often an onset is seen that never comes."""
    hits = np.random.default_rng(0).binomial(samples, 0.04, size=(RUNS, 100))
    return float(np.mean([onset(range(1, 101), row, samples, threshold=0.05, **how).seen for row in hits]))


def delays(how: dict[str, Any], samples: int) -> dict[str, float]:
    """A rate that rises through 10% at step 10,000, 80 log-spaced looks: when it is noticed, if the interval holds."""
    rng = np.random.default_rng(1)
    steps = np.unique(np.geomspace(10, 100_000, 80).astype(int))
    rate = 1 / (1 + 9 * (steps / 10_000.0) ** -4)
    found = [onset(steps, rng.binomial(samples, rate), samples, threshold=0.1, **how) for _ in range(RUNS)]
    noticed = [one.upper / 10_000 for one in found if one.seen]
    return {
        "held": float(np.mean([one.lower < 10_000 <= one.upper for one in found])),
        "median_delay": float(np.median(noticed)),
        "median_width": float(np.median([one.upper / max(one.lower, 1) for one in found if one.seen])),
        "median_interpolated": float(np.median([one.interpolated or np.nan for one in found])) / 10_000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = []
    for samples in (256, 512, 2048):
        for name, how in WAYS.items():
            rows.append({"samples": samples, "way": name, "false": false_onsets(how, samples), **delays(how, samples)})
            print(rows[-1], flush=True)
    result = {
        "what": "errors of ways to read a clock, on simulated curves",
        "command": "python studies/onset_errors.py --out results/onset_errors.json",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cpu"),
        "repeats": RUNS,
        "seeds": [0, 1],
        "runs": rows,
    }
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
