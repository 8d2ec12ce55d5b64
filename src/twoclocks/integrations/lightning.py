"""The monitor as a callback of Lightning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twoclocks.core.telemetry import telemetry_off
from twoclocks.integrations.extras import missing_extra
from twoclocks.integrations.trackers import Tracker, tracker_around
from twoclocks.integrations.watcher import Sampler, Watcher
from twoclocks.monitor import Decision, Monitor

telemetry_off()
try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.callbacks import WeightAveraging
except ImportError as error:
    raise missing_extra("lightning", "lightning", error) from None

# Class of a Lightning logger: our tracker around its experiment.
LOGGERS = {"TensorBoardLogger": "tensorboard", "WandbLogger": "wandb", "MLFlowLogger": "mlflow"}


class MonitorCallback(Callback):
    """Looks at a LightningModule while a Trainer trains it, and stops the Trainer.

    ``sampler`` gets the LightningModule. With a ``WeightAveraging`` callback in the Trainer it gets the averaged
    weights, unless ``ema`` names others. Steps are the Trainer's ``global_step``: optimizer steps, of all optimizers
    together. The other arguments are those of ``twoclocks.integrations.watcher.Watcher``.
    """

    def __init__(self, monitor: Monitor, sampler: Sampler, every: int = 500, **options: Any) -> None:
        super().__init__()
        self.watcher = Watcher(monitor, sampler, every, **options)

    @property
    def decision(self) -> Decision | None:
        """The last decision; None before the first look."""
        return self.watcher.decision

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._look(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._look(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._look(trainer, pl_module, last=True)

    def _look(self, trainer: Trainer, pl_module: LightningModule, last: bool = False) -> None:
        step = trainer.global_step
        decision = self.watcher.step(
            step, pl_module, last=last, ema=averaged_module(trainer), also=logger_trackers(trainer)
        )
        if decision is not None:
            for logger in trainer.loggers:  # they write on rank 0 only
                logger.log_metrics(self.watcher.scalars(decision), step=step)
            trainer.should_stop = trainer.should_stop or decision.stop  # the same decision on every rank

    def state_dict(self) -> dict[str, Any]:
        return self.watcher.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self.watcher.load_state_dict(state_dict)


def averaged_module(trainer: Trainer) -> Any | None:
    """The module with the averaged weights of a ``WeightAveraging`` callback (it swaps them in for validation only)."""
    for callback in trainer.callbacks:
        if isinstance(callback, WeightAveraging):
            return callback._average_model
    return None


def logger_trackers(trainer: Trainer) -> list[Tracker]:
    """Trackers for pictures around the Trainer's loggers; empty on all ranks but the first."""
    if not trainer.is_global_zero:
        return []
    found = []
    for logger in trainer.loggers:
        if name := LOGGERS.get(type(logger).__name__):
            run = (logger.experiment, logger.run_id) if name == "mlflow" else logger.experiment
            found.append(tracker_around(name, run))
    return [tracker for tracker in found if tracker is not None]
