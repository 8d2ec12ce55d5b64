"""The callback in a real Trainer of Transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loops import EVERY, STOP, TRAIN, Net, equal, looks, loss_of, new_monitor, sampler, weights
from torch import nn
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from twoclocks.integrations.transformers import MonitorCallback, generator


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, rows: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": loss_of(self.net, rows)}


def trainer_for(folder: Path, steps: int = 20, **arguments: Any) -> Trainer:
    torch.manual_seed(0)
    how: dict[str, Any] = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "seed": 0, "use_cpu": True}
    how |= {"max_steps": steps, "per_device_train_batch_size": 4, "logging_strategy": "no", "output_dir": str(folder)}
    data = [{"rows": row, "labels": row} for row in TRAIN]
    return Trainer(model=Model(), args=TrainingArguments(**{**how, **arguments}), train_dataset=data)


def test_training_is_the_same_with_and_without_the_monitor(tmp_path: Path) -> None:
    found = []
    for watched in (True, False):
        trainer = trainer_for(tmp_path, gradient_accumulation_steps=2)
        if watched:
            callback = MonitorCallback(new_monitor("never"), sampler, EVERY).attach(trainer)
        trainer.train()
        found.append(weights(trainer.model))
    assert equal(*found)
    assert looks(callback.watcher.monitor) == [4, 8, 12, 16, 20]  # optimizer steps, not batches


def test_stops_and_the_scalars_are_in_the_log(tmp_path: Path) -> None:
    trainer = trainer_for(tmp_path)
    callback = MonitorCallback(new_monitor(), sampler, EVERY)
    trainer.add_callback(callback)  # as Trainer(callbacks=[…]) does
    trainer.train()
    assert trainer.state.global_step == STOP and callback.decision.stop
    logged = [row for row in trainer.state.log_history if "twoclocks/copy_rate" in row]
    assert [row["step"] for row in logged] == [4, 8, 12, 16] and logged[-1]["twoclocks/copy_rate"] == 1


@pytest.mark.parametrize("restore", [False, True])
def test_resumed_monitor_equals_the_uninterrupted_one(tmp_path: Path, restore: bool) -> None:
    how: dict[str, Any] = {"save_strategy": "steps", "save_steps": 10}
    how["restore_callback_states_from_checkpoint"] = restore  # it would call the constructor of an ExportableState
    whole = trainer_for(tmp_path, **how)
    watched = MonitorCallback(new_monitor("never"), sampler, EVERY).attach(whole)
    whole.train()
    stored = json.loads((tmp_path / "checkpoint-10" / "trainer_state.json").read_text())
    assert [look["step"] for look in stored["stateful_callbacks"]["twoclocks"]["looks"]] == [4, 8]

    resumed = trainer_for(tmp_path, **how)
    again = MonitorCallback(new_monitor("never"), sampler, EVERY).attach(resumed)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-10"))
    assert equal(weights(whole.model), weights(resumed.model))
    assert again.watcher.state_dict() == watched.watcher.state_dict()
    assert again.decision.as_dict() == watched.decision.as_dict()


def test_a_checkpoint_older_than_the_callback_can_be_resumed_and_saved(tmp_path: Path) -> None:
    trainer_for(tmp_path, 10, save_strategy="steps", save_steps=5).train()
    trainer = trainer_for(tmp_path, 20, save_strategy="steps", save_steps=5)
    callback = MonitorCallback(new_monitor("never"), sampler, EVERY).attach(trainer)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert looks(callback.watcher.monitor) == [8, 12, 16, 20]
    stored = json.loads((tmp_path / "checkpoint-20" / "trainer_state.json").read_text())
    assert len(stored["stateful_callbacks"]["twoclocks"]["looks"]) == 4


def test_a_stop_by_somebody_else_is_the_last_look(tmp_path: Path) -> None:
    class Other(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_training_stop = state.global_step == 6

    trainer = trainer_for(tmp_path)
    trainer.add_callback(Other())
    callback = MonitorCallback(new_monitor("never"), sampler, EVERY).attach(trainer)
    trainer.train()
    assert looks(callback.watcher.monitor) == [4, 6]


def test_scalars_and_gallery_reach_the_trackers_of_the_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    trainer = trainer_for(tmp_path, report_to=["tensorboard"])
    MonitorCallback(new_monitor(), sampler, EVERY).attach(trainer)
    trainer.train()
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    (name,) = [tag for tag in events.Tags()["scalars"] if tag.endswith("twoclocks/copy_rate")]
    assert [(event.step, event.value) for event in events.Scalars(name)][-2:] == [(12, 1.0), (16, 1.0)]
    assert [event.step for event in events.Images("twoclocks/copies")] == [12, 16]


def test_two_monitors_of_one_trainer_have_their_own_names_and_states(tmp_path: Path) -> None:
    trainer = trainer_for(tmp_path, 10, save_strategy="steps", save_steps=10)
    for key, every in (("twoclocks/a", 4), ("twoclocks/b", 5)):
        MonitorCallback(new_monitor("never"), sampler, every, key=key).attach(trainer)
    trainer.train()
    logged = {
        key: [row["step"] for row in trainer.state.log_history if f"{key}/copy_rate" in row]
        for key in ("twoclocks/a", "twoclocks/b")
    }
    assert logged == {"twoclocks/a": [4, 8, 10], "twoclocks/b": [5, 10]}
    stored = json.loads((tmp_path / "checkpoint-10" / "trainer_state.json").read_text())["stateful_callbacks"]
    assert [len(stored[key]["looks"]) for key in logged] == [3, 2]


def test_the_generator_continues_greedily_in_batches_and_never_ends_early() -> None:
    torch.manual_seed(0)
    size = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16, "vocab_size": 8, "tie_word_embeddings": False}
    model = GPT2LMHeadModel(GPT2Config(**size, bos_token_id=0, eos_token_id=3, initializer_range=0.5)).eval()
    prefixes = np.random.default_rng(0).integers(0, 8, (7, 4))
    found = generator(model, batch=3, pad_token_id=0)(prefixes, 6)
    rows = torch.as_tensor(prefixes)
    for _ in range(6):
        logits = model(rows).logits[:, -1].detach()
        logits[:, 3] = -torch.inf  # the end of a text
        rows = torch.cat([rows, logits.argmax(1, keepdim=True)], 1)
    assert found.tolist() == rows[:, 4:].tolist()
    # What a model's own settings of generation would hide is not hidden, and they are as before.
    own = {"repetition_penalty": 1.8, "no_repeat_ngram_size": 2, "num_beams": 3, "do_sample": True}
    model.generation_config.update(**own)
    assert generator(model, batch=3, pad_token_id=0)(prefixes, 6).tolist() == found.tolist()
    assert all(getattr(model.generation_config, name) == value for name, value in own.items())
    model.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=3)
    drawn = generator(model, pad_token_id=0, do_sample=True)(prefixes, 6)
    assert drawn.shape == (7, 6) and drawn.tolist() != found.tolist()
