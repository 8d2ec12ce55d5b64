"""twoclocks: when a generative model learns the rule behind its data, and when it starts to copy its training set.

>>> import twoclocks as tc
>>> rule = tc.rules.create("parity", length=36, group=3)
>>> train = tc.data.training_set(rule, n=512, seed=0)
>>> bool(rule.is_valid(train).all())
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from twoclocks.core.address_space import NUMPY, check_address_space

if TYPE_CHECKING:
    from twoclocks import (
        analysis,
        clocks,
        data,
        dissection,
        evaluation,
        integrations,
        models,
        monitor,
        objectives,
        oracles,
        rules,
        runs,
        store,
        sweeps,
        testing,
        widen,
    )
    from twoclocks.monitor.monitor import Monitor
    from twoclocks.runs import Run, load_run, load_settings, run

__version__ = "0.1.0"

# Loaded on first use: `twoclocks --help` and the clocks need no torch.
_FOLDERS = (
    *("analysis", "clocks", "data", "dissection", "evaluation", "integrations", "models", "monitor", "objectives"),
    *("oracles", "rules", "runs", "store", "sweeps", "testing", "widen"),
)
_NAMES = {
    "Monitor": "twoclocks.monitor.monitor",
    "Run": "twoclocks.runs",
    "UserError": "twoclocks.core.errors",
    "load_run": "twoclocks.runs",
    "load_settings": "twoclocks.runs",
    "run": "twoclocks.runs",
}
__all__ = [
    "Monitor",
    "Run",
    "UserError",
    "__version__",
    "analysis",
    "clocks",
    "data",
    "dissection",
    "evaluation",
    "integrations",
    "load_run",
    "load_settings",
    "models",
    "monitor",
    "objectives",
    "oracles",
    "rules",
    "run",
    "runs",
    "store",
    "sweeps",
    "testing",
    "widen",
]


def __getattr__(name: str) -> Any:
    if name in __all__ and name not in ("UserError", "store"):  # these two import neither numpy nor scipy
        check_address_space(NUMPY)
    if name in _FOLDERS:
        return import_module(f"twoclocks.{name}")
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'twoclocks' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
