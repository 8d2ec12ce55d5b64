"""The callback in a real Trainer of Lightning."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from loops import EVERY, STOP, TRAIN, Net, equal, looks, loss_of, new_monitor, sampler, weights

from twoclocks.integrations.lightning import MonitorCallback


class Module(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        return loss_of(self.net, batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters())


@pytest.fixture(autouse=True)
def quiet() -> Any:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fit(folder: Path, *callbacks: Any, resume: Path | None = None, steps: int = 20, **options: Any) -> Trainer:
    torch.manual_seed(0)
    how: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    how |= {"enable_checkpointing": any(isinstance(one, ModelCheckpoint) for one in callbacks), "accelerator": "cpu"}
    trainer = Trainer(default_root_dir=folder, max_steps=steps, callbacks=list(callbacks), **how, **options)
    loader = torch.utils.data.DataLoader(TRAIN, batch_size=4)
    trainer.fit(Module(), loader, ckpt_path=resume)
    return trainer


def test_training_is_the_same_with_and_without_the_monitor(tmp_path: Path) -> None:
    callback = MonitorCallback(new_monitor("never"), sampler, EVERY)
    watched = fit(tmp_path, callback, accumulate_grad_batches=2)
    alone = fit(tmp_path, accumulate_grad_batches=2)
    assert equal(weights(watched.lightning_module), weights(alone.lightning_module))
    assert looks(callback.watcher.monitor) == [4, 8, 12, 16, 20]  # optimizer steps, not batches


def test_stops_and_looks_at_the_last_step(tmp_path: Path) -> None:
    callback = MonitorCallback(new_monitor(), sampler, EVERY)
    assert fit(tmp_path, callback).global_step == STOP and callback.decision.stop
    callback = MonitorCallback(new_monitor("never"), sampler, EVERY, first=0)
    fit(tmp_path, callback, steps=6)
    assert looks(callback.watcher.monitor) == [0, 4, 6]


def test_resumed_monitor_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    class Seeded(Callback):
        """Lightning does not store the random state in its checkpoints."""

        def on_train_batch_start(self, trainer: Trainer, *rest: Any) -> None:
            torch.manual_seed(trainer.global_step)

    def callbacks() -> tuple[MonitorCallback, ModelCheckpoint, Seeded]:
        saving = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=8, save_top_k=-1)
        return MonitorCallback(new_monitor("never"), sampler, EVERY), saving, Seeded()

    whole, *others = callbacks()
    first = fit(tmp_path, whole, *others)
    again, *others = callbacks()
    second = fit(tmp_path, again, *others, resume=tmp_path / "step=8.ckpt")
    stored = torch.load(tmp_path / "step=8.ckpt", weights_only=True)["callbacks"]["MonitorCallback"]
    assert [look["step"] for look in stored["looks"]] == [4, 8]
    assert equal(weights(first.lightning_module), weights(second.lightning_module))
    assert looks(whole.watcher.monitor) == [4, 8, 12, 16, 20]
    assert again.watcher.state_dict() == whole.watcher.state_dict()
    assert again.decision.as_dict() == whole.decision.as_dict()


def test_weights_of_the_averaging_callback_are_sampled(tmp_path: Path) -> None:
    seen: list[bool] = []
    averaging = EMAWeightAveraging(decay=0.9)

    def sample(model: Any) -> torch.Tensor:
        seen.append(model is averaging._average_model.module)
        return sampler(model)

    watched = fit(tmp_path, averaging, MonitorCallback(new_monitor("never"), sample, EVERY), steps=9)
    alone = fit(tmp_path, EMAWeightAveraging(decay=0.9), steps=9)
    assert seen == [True, True, True] and equal(weights(watched.lightning_module), weights(alone.lightning_module))


def test_scalars_and_gallery_reach_the_logger(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = TensorBoardLogger(tmp_path, name="", version="")
    torch.manual_seed(0)
    how: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    callback = MonitorCallback(new_monitor(), sampler, EVERY)
    trainer = Trainer(logger=logger, enable_checkpointing=False, max_steps=20, callbacks=[callback], **how)
    trainer.fit(Module(), torch.utils.data.DataLoader(TRAIN, batch_size=4))
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in events.Scalars("twoclocks/copy_rate")] == [4, 8, 12, 16]
    assert [event.step for event in events.Images("twoclocks/copies")] == [12, 16]
