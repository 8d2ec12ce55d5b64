"""How training can end badly; imports no torch, so the command line can name it without waiting."""

from __future__ import annotations

from twoclocks.core.errors import UserError


class DivergedError(UserError):
    """The loss is not finite any more."""

    def __init__(self, step: int, last_good: int) -> None:
        self.step, self.last_good = step, last_good
        super().__init__(
            f"training stopped at step {step}: the loss or the weights are not finite any more; the last good "
            f"weights are those of step {last_good}. Use a smaller training.learning_rate"
        )
