"""The monitor in loops over an ``accelerate.Accelerator``, as the training scripts of diffusers have them."""

from __future__ import annotations

from typing import Any

from twoclocks.core.telemetry import telemetry_off
from twoclocks.integrations.extras import missing_extra
from twoclocks.integrations.pytorch import MonitorHook as PlainHook
from twoclocks.integrations.trackers import Tracker, tracker_around
from twoclocks.integrations.watcher import Sampler
from twoclocks.monitor import Decision, Monitor

telemetry_off()
try:
    from accelerate import Accelerator
except ImportError as error:
    raise missing_extra("accelerate", "diffusers", error) from None


class MonitorHook(PlainHook):
    """Looks at a model while a loop over an Accelerator trains it.

    Its state is part of ``accelerator.save_state`` and ``load_state``; scalars go to ``accelerator.log``, the gallery
    to the accelerator's trackers. ``ema`` may be the ``EMAModel`` of diffusers. A stop also sets the accelerator's
    trigger, for loops that ask ``check_trigger``.
    """

    def __init__(
        self,
        monitor: Monitor,
        sampler: Sampler,
        every: int = 500,
        *,
        accelerator: Accelerator,
        model: Any,
        **options: Any,
    ) -> None:
        super().__init__(monitor, sampler, every, model=model, **options)
        self.accelerator = accelerator
        accelerator.register_for_checkpointing(self)

    def step(self, step: int, *, last: bool = False) -> Decision | None:
        model = self.accelerator.unwrap_model(self.model)
        decision = self.watcher.step(step, model, last=last, also=self._trackers())
        if decision is not None:
            self.accelerator.log(self.watcher.scalars(decision), step=step)
            if decision.stop:
                self.accelerator.set_trigger()
        return decision

    def _trackers(self) -> list[Tracker]:
        """The accelerator's trackers that take pictures; they exist on the main process only."""
        found = [tracker_around(one.name, one.tracker) for one in self.accelerator.trackers]
        return [tracker for tracker in found if tracker is not None]
