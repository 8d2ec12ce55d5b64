"""The one-line error for a package that an integration needs and that is not installed."""

from __future__ import annotations

from twoclocks.core.errors import UserError


def missing_extra(package: str, extra: str, error: ImportError) -> UserError:
    """The error to raise where the import of an optional package failed; names the command that installs it."""
    reason = "is not installed" if (error.name or "").split(".")[0] == package else f"cannot be imported ({error})"
    return UserError(f"{package}: {reason}; run pip install 'twoclocks[{extra}]'")
