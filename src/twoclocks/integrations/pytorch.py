"""The monitor in a training loop of your own: one call per step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twoclocks.integrations.watcher import Sampler, Watcher
from twoclocks.monitor import Decision, Monitor


class MonitorHook:
    """Looks at a model while your own loop trains it.

    Call ``step`` at the end of each training step, on every rank, and leave the loop where ``stop`` is true. Store
    ``state_dict`` in your checkpoint. The other arguments are those of ``twoclocks.integrations.watcher.Watcher``.

    >>> import torch, twoclocks as tc
    >>> train = torch.tensor([[0, 1], [1, 1]])
    >>> hook = MonitorHook(tc.Monitor(train=train), lambda model: train[:1], every=10, model=torch.nn.Linear(2, 2))
    >>> [step for step in range(1, 31) if hook.step(step) is not None]
    [10, 20, 30]
    """

    def __init__(self, monitor: Monitor, sampler: Sampler, every: int = 500, *, model: Any, **options: Any) -> None:
        self.watcher = Watcher(monitor, sampler, every, **options)
        self.model = model

    @property
    def decision(self) -> Decision | None:
        """The last decision; None before the first look."""
        return self.watcher.decision

    @property
    def stop(self) -> bool:
        """Whether the last decision said stop."""
        return self.decision is not None and self.decision.stop

    def step(self, step: int, *, last: bool = False) -> Decision | None:
        """The decision after ``step`` optimizer steps, or None where no look is due; ``last`` asks for one."""
        return self.watcher.step(step, self.model, last=last)

    def state_dict(self) -> dict[str, Any]:
        """The monitor's state, as plain values."""
        return self.watcher.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from ``state_dict``."""
        self.watcher.load_state_dict(state)
