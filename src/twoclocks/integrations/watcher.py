"""The part that all adapters share: when to look, how to sample, who observes, what is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.seeds import derive
from twoclocks.integrations.distributed import is_first_rank, on_first_rank
from twoclocks.integrations.preserve import sampling
from twoclocks.integrations.trackers import Tracker, trackers_of
from twoclocks.monitor import Decision, Monitor

Sampler = Callable[[Any], Any]  # model → samples (n, *shape), as an array or tensor
Losses = Callable[[Any], tuple[Any, Any]]  # model → (training loss, held-out loss)
log = logging.getLogger("twoclocks")
NAME = "twoclocks"  # under which scalars are logged


class Watcher:
    """Samples from a model at some steps of its training and gives the samples to a monitor.

    ``sampler(model)`` returns samples; it runs in eval mode, without gradients, with the weights of ``ema``, and leaves
    no trace in training: modes, weights and random generators are restored. There is a look at step ``first`` (default:
    ``every``), at each later multiple of ``every``, and at the last step where the loop knows it. Noise depends on
    (``seed``, step) only. ``losses(model)`` returns the training and the held-out loss, for the gap between them.
    ``trackers`` are names or objects of ``twoclocks.integrations.trackers``; at looks with copies they also get
    the gallery, unless ``gallery`` is False. Everything is logged as ``name/…``; two monitors of one loop need two
    names, such as "twoclocks/runs". In distributed training every rank calls ``step``; rank 0 samples and observes, and
    all get its decision.
    """

    def __init__(
        self,
        monitor: Monitor,
        sampler: Sampler,
        every: int = 500,
        *,
        first: int | None = None,
        ema: Any | None = None,
        losses: Losses | None = None,
        trackers: str | Tracker | Sequence[str | Tracker] = (),
        gallery: bool = True,
        seed: int = 0,
        name: str = NAME,
    ) -> None:
        if not isinstance(every, int) or every < 1:
            raise SettingError("every", every, "use an integer of at least 1")
        if first is not None and (not isinstance(first, int) or first < 0):
            raise SettingError("first", first, "use an integer of at least 0")
        if not callable(sampler):
            raise UserError(f"sampler: {sampler!r} is not a function; give one that takes the model, returns samples")
        if not isinstance(name, str) or not name:
            raise SettingError("name", name, "use a text, such as 'extraction'")
        self.monitor, self.sampler, self.every = monitor, sampler, every
        self.first = every if first is None else first
        self.ema, self.losses, self.gallery, self.seed = ema, losses, gallery, seed
        self.name = name
        self.trackers = trackers_of(trackers) if is_first_rank() else []
        self.decision: Decision | None = None  # the last one
        self.last_step: int | None = None  # at which it was asked
        self.last_look = monitor.last_step  # every rank has it: the monitor of rank 0 alone knows more

    def is_due(self, step: int, last: bool = False) -> bool:
        """Whether to look at this step; False if that was done, as loops that accumulate gradients ask repeatedly."""
        if self.last_look is not None and step <= self.last_look:
            return False
        before = step - 1 if self.last_step is None else self.last_step  # steps may be counted in jumps
        return last or before < self.first <= step or (step > self.first and step // self.every > before // self.every)

    def step(
        self, step: int, model: Any, *, last: bool = False, ema: Any | None = None, also: Sequence[Tracker] = ()
    ) -> Decision | None:
        """Looks if it is due, else returns None; ``ema`` and ``also`` (trackers) are what the framework itself has."""
        due, self.last_step = self.is_due(step, last), step
        if not due:
            return None
        self.last_look = step
        self.decision = on_first_rank(lambda: self._look(step, model, self.ema if self.ema is not None else ema, also))
        return self.decision

    def _look(self, step: int, model: Any, ema: Any | None, also: Sequence[Tracker]) -> Decision:
        """Samples, observes and logs, on one process."""
        with sampling(model, ema, derive(self.seed, "look", step)) as chosen:
            samples = self.sampler(chosen)
            losses = self.losses(chosen) if self.losses is not None else (None, None)
        decision = self.monitor.observe(step, samples, *losses)
        for tracker in self.trackers:
            tracker.log(self.scalars(decision), step)
        if self.gallery and decision.copy_rate > 0 and (targets := [*self.trackers, *also]):
            self._log_gallery(targets, step)
        return decision

    def _log_gallery(self, targets: Sequence[Tracker], step: int) -> None:
        try:
            with TemporaryDirectory() as folder:
                picture = Path(folder) / "copies.png"
                self.monitor.gallery(picture)
                for tracker in targets:
                    tracker.image(f"{self.name}/copies", picture, step)
        except Exception as error:  # a picture is never a reason to end training
            log.warning(f"gallery: it was not logged at step {step} ({type(error).__name__}: {error})")

    def state_dict(self) -> dict[str, Any]:
        """The monitor's state: plain values, which JSON and ``torch.load(weights_only=True)`` can read."""
        return self.monitor.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from ``state_dict``; looks that it has are not repeated."""
        self.monitor.load_state(state)
        self.last_look = self.monitor.last_step
        self.decision = None if self.last_look is None else self.monitor.decision()

    def scalars(self, decision: Decision) -> dict[str, float]:
        """The decision as flat numbers under the watcher's name, for a tracker."""
        return {f"{self.name}/{key}": value for key, value in decision.as_dict().items()}
