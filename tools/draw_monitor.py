"""Draw docs/monitor.png: noisy copies of digits beside their originals, as the monitor's gallery shows them.

python tools/draw_monitor.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import twoclocks as tc

DOCS = Path(__file__).parents[1] / "docs"
COPIES, SAMPLES, NOISE = 120, 400, 0.15


def main() -> None:
    rng = np.random.default_rng(0)
    images = (load_digits().images / 8 - 1).astype(np.float32)[rng.permutation(1797)]
    train, held_out, new = images[:800], images[800:1400], images[1400:]
    samples = new[rng.integers(0, len(new), SAMPLES)]
    samples[:COPIES] = train[rng.permutation(len(train))[:COPIES]]
    samples = samples + NOISE * rng.normal(size=samples.shape).astype(np.float32)
    monitor = tc.Monitor(train, held_out=held_out)
    decision = monitor.observe(1000, samples)
    print(
        f"{decision.copy_rate:.3f} of the samples are copies, in truth {COPIES / SAMPLES:.3f}; chance: {monitor.chance}"
    )
    monitor.gallery(DOCS / "monitor.png")


if __name__ == "__main__":
    main()
