"""Error rates and delays of several definitions of an onset, on simulated curves of known truth.

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

DEFINITIONS: dict[str, dict[str, Any]] = {
    "plain first crossing": {"sustain": 1, "confidence": 0},
    "3 in a row (P1)": {"sustain": 3, "confidence": 0},
    "bounds, 1": {"sustain": 1},
    "bounds, 3 in a row (ours)": {"sustain": 3},
}
RUNS = 2000


def false_onsets(how: dict[str, Any], samples: int) -> float:
    """Share of false onsets: the rate is always 4%, the threshold 5%, with 100 looks (interim analyses)."""
    hits = np.random.default_rng(0).binomial(samples, 0.04, size=(RUNS, 100))
    return float(np.mean([onset(range(1, 101), row, samples, threshold=0.05, **how).seen for row in hits]))


def delays(how: dict[str, Any], samples: int) -> dict[str, float]:
    """Coverage and delay for a rate that crosses 10% at step 10,000, with 80 log-spaced looks (interim analyses)."""
    rng = np.random.default_rng(1)
    steps = np.unique(np.geomspace(10, 100_000, 80).astype(int))
    rate = 1 / (1 + 9 * (steps / 10_000.0) ** -4)
    found = [onset(steps, rng.binomial(samples, rate), samples, threshold=0.1, **how) for _ in range(RUNS)]
    detected = [one.upper / 10_000 for one in found if one.seen]
    return {
        "held": float(np.mean([one.lower < 10_000 <= one.upper for one in found])),
        "median_delay": float(np.median(detected)),
        "median_width": float(np.median([one.upper / max(one.lower, 1) for one in found if one.seen])),
        "median_interpolated": float(np.median([one.interpolated or np.nan for one in found])) / 10_000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = []
    for samples in (256, 512, 2048):
        for name, how in DEFINITIONS.items():
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
