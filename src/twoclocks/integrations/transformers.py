"""The monitor as a callback of the Trainer of Transformers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from twoclocks.core.telemetry import telemetry_off
from twoclocks.integrations.extras import missing_extra
from twoclocks.integrations.trackers import Tracker, tracker_around
from twoclocks.integrations.watcher import NAME, Sampler, Watcher
from twoclocks.monitor import Decision, Monitor
from twoclocks.monitor.extraction import Generate

telemetry_off()
try:
    from transformers import GenerationConfig, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ImportError as error:
    raise missing_extra("transformers", "transformers", error) from None


class MonitorCallback(TrainerCallback):
    """Looks at a model while a Trainer trains it, and stops the Trainer.

    ``MonitorCallback(monitor, sampler, every=500).attach(trainer)`` adds it to a Trainer. Given as
    ``Trainer(callbacks=[…])`` it works too, but cannot reach the Trainer's trackers: then scalars are only in the
    log history. The other arguments are those of ``twoclocks.integrations.watcher.Watcher``.

    Its state is in ``trainer_state.json``, under ``stateful_callbacks`` and ``key``; scalars are logged as ``key/…``.
    Two monitors of one Trainer need two keys, such as "twoclocks/runs". It is not an ``ExportableState``: the Trainer
    restores those by a constructor call with stored arguments, and a model's samples cannot be stored so.
    """

    def __init__(
        self, monitor: Monitor, sampler: Sampler, every: int = 500, *, key: str = NAME, **options: Any
    ) -> None:
        self.watcher = Watcher(monitor, sampler, every, name=key, **options)
        self.key = key
        self.trainer: Trainer | None = None

    @property
    def decision(self) -> Decision | None:
        """The last decision; None before the first look."""
        return self.watcher.decision

    def attach(self, trainer: Trainer) -> MonitorCallback:
        """Adds the callback to a Trainer, whose trackers it then uses."""
        self.trainer = trainer
        trainer.add_callback(self)
        return self

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        stored = state.stateful_callbacks.get(self.key)  # None: a new run, or a checkpoint older than the callback
        if stored is not None:
            self.watcher.load_state_dict(stored)
        return self._look(state, control, kwargs["model"])

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        last = state.global_step >= state.max_steps or control.should_training_stop
        return self._look(state, control, kwargs["model"], last)

    def _look(self, state: TrainerState, control: TrainerControl, model: Any, last: bool = False) -> TrainerControl:
        decision = self.watcher.step(state.global_step, model, last=last, also=self._trackers(state))
        if decision is not None:
            state.stateful_callbacks[self.key] = self.watcher.state_dict()
            self._log(state, self.watcher.scalars(decision))
            control.should_training_stop = control.should_training_stop or decision.stop
        return control

    def _log(self, state: TrainerState, scalars: dict[str, float]) -> None:
        if self.trainer is not None:
            self.trainer.log(scalars)
        else:
            state.log_history.append({**scalars, "step": state.global_step})

    def _trackers(self, state: TrainerState) -> list[Tracker]:
        """Trackers for pictures around those of the Trainer; empty on all ranks but the first."""
        if self.trainer is None or not state.is_world_process_zero:
            return []
        found = [tracker_around(*known) for known in map(_tracker_of, self.trainer.callback_handler.callbacks) if known]
        return [tracker for tracker in found if tracker is not None]


def generator(model: Any, batch: int = 64, **options: Any) -> Generate:
    """The function that ``tc.monitor.continue_pieces`` and ``measure_extraction`` need, by ``model.generate``.

    It is greedy unless ``options``, which are those of ``generate``, say otherwise: the model's own
    ``generation_config`` (beams, penalties of repetition, …) does not apply, since it would hide what was memorized.
    Special tokens that would end a text are not generated: a continuation has the length that is asked for.
    """

    def generate(prefixes: Any, length: int) -> torch.Tensor:
        how = {"do_sample": False, "num_beams": 1, "min_new_tokens": length, "max_new_tokens": length, **options}
        found = []
        with plain_generation(model):
            for part in torch.as_tensor(prefixes).to(model.device).split(batch):
                whole = model.generate(part, attention_mask=torch.ones_like(part), **how)
                found.append(whole[:, part.shape[1] :].cpu())
        return torch.cat(found)

    return generate


@contextmanager
def plain_generation(model: Any) -> Iterator[None]:
    """Meanwhile, a model generates by the library's defaults; its special tokens are its own."""
    own = model.generation_config
    special = {name: getattr(own, name, None) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model.generation_config = GenerationConfig(**special)
    try:
        yield
    finally:
        model.generation_config = own


def _tracker_of(callback: TrainerCallback) -> tuple[str, Any] | None:
    """Name and object of the tracker behind a callback of Transformers; None if it has none that takes pictures."""
    match type(callback).__name__:
        case "TensorBoardCallback":
            return "tensorboard", callback.tb_writer
        case "WandbCallback":
            return "wandb", callback._wandb.run
        case "MLflowCallback":
            return "mlflow", None
        case "TrackioCallback":
            return "trackio", None
    return None
