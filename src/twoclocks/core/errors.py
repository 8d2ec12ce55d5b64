"""Errors that the user can correct: one line with the field, the value and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from twoclocks.core.text import one_line, shortened, show


class UserError(ValueError):
    """Something the caller asked for cannot be done; the message says what to change.

    The message is one printable line of a readable length, whatever names and values it quotes.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class SettingError(UserError):
    """A setting has a value that cannot be used.

    >>> raise SettingError("training.steps", 0, "use an integer of at least 1")
    Traceback (most recent call last):
    twoclocks.core.errors.SettingError: training.steps: 0 is not allowed; use an integer of at least 1
    """

    problem = "is not allowed"

    def __init__(self, field: str, value: object, fix: str) -> None:
        self.field = field
        self.value = value
        self.fix = fix
        super().__init__(f"{shortened(field)}: {show(value)} {self.problem}; {fix}")

    def inside(self, section: str) -> SettingError:
        """The same error with the section's name: ``group`` of a rule becomes ``rule.group``."""
        return type(self)(f"{section}.{self.field}", self.value, self.fix)


class UnavailableError(SettingError):
    """A setting names something that this machine does not have.

    >>> raise UnavailableError("training.device", "gpu", "available: cpu")
    Traceback (most recent call last):
    twoclocks.core.errors.UnavailableError: training.device: 'gpu' is not available; available: cpu
    """

    problem = "is not available"


class UnknownNameError(UserError):
    """A name that is not registered or not a setting; the message offers the most similar known name."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        close = get_close_matches(name, self.known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}? " if close else ""
        known_names = f"known: {', '.join(self.known)}" if self.known else "nothing can be set here"
        super().__init__(f"{shortened(kind)}: {show(name)} is unknown; {hint}{known_names}")
