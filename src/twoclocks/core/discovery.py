"""Import every module of a folder, so that a new file registers its classes without being listed anywhere."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def import_all(package: ModuleType) -> None:
    """Import every module of a package."""
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
