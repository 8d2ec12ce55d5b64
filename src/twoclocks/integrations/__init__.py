"""The monitor inside other people's training loops: Lightning, Transformers, Accelerate and diffusers, plain PyTorch.

Import the adapter of your framework: ``twoclocks.integrations.lightning``, ``.transformers``, ``.accelerate`` or
``.pytorch``. Each needs its extra, for example ``pip install 'twoclocks[lightning]'``; plain PyTorch needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twoclocks.core.lazy import lazy_exports
from twoclocks.integrations.trackers import TRACKERS, MLflow, TensorBoard, Tracker, Trackio, Wandb

if TYPE_CHECKING:
    from twoclocks.integrations.watcher import Watcher

__getattr__ = lazy_exports(__name__, {"Watcher": "twoclocks.integrations.watcher"})  # it imports torch

__all__ = ["TRACKERS", "MLflow", "TensorBoard", "Tracker", "Trackio", "Wandb", "Watcher"]
