"""Errors that a person can mend: one line with the field, the value and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Something the caller asked for cannot be done; the message says what to change."""


class SettingError(UserError):
    """A setting has a value that cannot work.

    >>> raise SettingError("training.steps", 0, "use a whole number of at least 1")
    Traceback (most recent call last):
    twoclocks.core.errors.SettingError: training.steps: 0 is not allowed; use a whole number of at least 1
    """

    def __init__(self, field: str, value: object, fix: str) -> None:
        self.field = field
        self.value = value
        self.fix = fix
        super().__init__(f"{field}: {value!r} is not allowed; {fix}")

    def inside(self, section: str) -> SettingError:
        """The same error seen from outside: ``group`` of a rule becomes ``rule.group``."""
        return SettingError(f"{section}.{self.field}", self.value, self.fix)


class UnknownNameError(UserError):
    """A name that nobody registered or declared, with the nearest ones that exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        close = get_close_matches(name, self.known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else "there is no such name."
        known_words = f"Known: {', '.join(self.known)}" if self.known else "Nothing can be set here."
        super().__init__(f"{kind}: {name!r} is unknown; {hint} {known_words}")
