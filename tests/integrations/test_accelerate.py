"""The hook in a real loop over an Accelerator, with the EMAModel of diffusers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from diffusers.training_utils import EMAModel
from loops import EVERY, STOP, TRAIN, Net, equal, looks, loss_of, new_monitor, sampler, weights

from twoclocks.integrations.accelerate import MonitorHook


class Loop:
    """As in the training scripts of diffusers: accumulation, EMA, checkpoints in the middle."""

    def __init__(self, folder: Path, policy: str | None = "never", sample: Any = sampler, **options: Any) -> None:
        set_seed(0)
        self.folder = folder
        self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2, **options)
        net = Net(turn=24)  # 24 batches are 12 optimizer steps
        self.ema = EMAModel(net.parameters(), decay=0.9)
        loader = torch.utils.data.DataLoader(TRAIN, batch_size=4)
        self.net, self.optimizer, self.loader = self.accelerator.prepare(
            net, torch.optim.Adam(net.parameters()), loader
        )
        self.accelerator.register_for_checkpointing(self.ema)
        self.hook = None
        if policy is not None:
            how: dict[str, Any] = {"accelerator": self.accelerator, "model": self.net, "ema": self.ema}
            self.hook = MonitorHook(new_monitor(policy), sample, EVERY, **how)

    def train(self, begin: int = 0, end: int = 20, save: int | None = None) -> int:
        step = begin
        while True:
            for rows in self.loader:
                with self.accelerator.accumulate(self.net):
                    self.accelerator.backward(loss_of(self.net, rows))
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                if self.accelerator.sync_gradients:
                    self.ema.step(self.net.parameters())
                    step += 1
                    if step == save:
                        self.accelerator.save_state(str(self.folder / "state"))
                if self.hook is not None:
                    self.hook.step(step)
                if step == end or self.accelerator.check_trigger():
                    return step


def test_training_is_the_same_with_and_without_the_monitor(tmp_path: Path) -> None:
    watched, alone = Loop(tmp_path), Loop(tmp_path, None)
    found = []
    for loop in (watched, alone):
        set_seed(1)
        loop.train()
        found.append([*weights(loop.net), *loop.ema.shadow_params])
    assert equal(*found) and looks(watched.hook.watcher.monitor) == [4, 8, 12, 16, 20]


def test_stops_by_the_trigger(tmp_path: Path) -> None:
    loop = Loop(tmp_path, "memory")
    assert loop.train() == STOP and loop.hook.stop


def test_resumed_monitor_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    whole = Loop(tmp_path)
    whole.train(save=8)  # 16 batches: the end of an epoch, after which the loader begins again
    again = Loop(tmp_path)
    again.accelerator.load_state(str(tmp_path / "state"))
    assert looks(again.hook.watcher.monitor) == [4]  # the loop saved before the look at step 8, which is made up for
    again.train(begin=8)
    assert equal(weights(whole.net), weights(again.net))
    assert looks(whole.hook.watcher.monitor) == [4, 8, 12, 16, 20]
    assert again.hook.state_dict() == whole.hook.state_dict()
    assert again.hook.watcher.decision.as_dict() == whole.hook.watcher.decision.as_dict()


def test_averaged_weights_are_sampled_and_the_own_ones_restored(tmp_path: Path) -> None:
    def sample(model: Net) -> torch.Tensor:
        own = [parameter.detach() for parameter in model.parameters()]
        seen.append(equal(own, loop.ema.shadow_params) and not equal(own, loop.ema.temp_stored_params))
        return sampler(model)

    seen: list[bool] = []
    loop = Loop(tmp_path, "never", sample)
    loop.train(end=9)
    assert seen == [True, True]


def test_scalars_and_gallery_reach_the_trackers_of_the_accelerator(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    loop = Loop(tmp_path, "memory", log_with="tensorboard", project_dir=tmp_path)
    loop.accelerator.init_trackers("events")
    loop.train()
    loop.accelerator.end_training()
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    assert [event.step for event in events.Scalars("twoclocks/copy_rate")] == [4, 8, 12, 16]
    assert [event.step for event in events.Images("twoclocks/copies")] == [12, 16]
