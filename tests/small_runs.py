"""Settings of runs that train in a second."""

from __future__ import annotations

TINY = {
    "rule": {"length": 8, "group": 2},
    "data": {"n": 4},
    "training": {"steps": 60, "batch": 8, "learning_rate": 3e-3},
    "evaluation": {"samples": 100, "steps": [0, 5, 20, 40, 60], "loss_rows": 16, "keep_samples": 20},
    "clocks": {"memory_threshold": 0.3, "above_chance": True, "sustain": 1},
}
SMALL_MODEL = {"width": 16, "depth": 1, "heads": 2}
