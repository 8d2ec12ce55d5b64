"""Optional packages of the extra ``images``, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from twoclocks.core.errors import UserError


def need(module: str, package: str) -> Any:
    """The module, or the one-line error that names the command which installs its package."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(f"{package}: cannot be imported ({error}); run pip install 'twoclocks[images]'") from None
