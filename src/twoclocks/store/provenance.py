"""Provenance of a result: package versions, machine, commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from twoclocks.core.errors import UserError
from twoclocks.core.processor import processor_name


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for package in ("twoclocks", "torch", "numpy", "scipy", "safetensors"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "source tree"
    return found


@cache
def commit() -> str | None:
    """The commit of the source tree of this package, with a + if it has local changes; None if installed.

    For a tree that was copied without its history, set the environment variable TWOCLOCKS_COMMIT.
    """
    if (named := os.environ.get("TWOCLOCKS_COMMIT")) is not None:
        if not re.fullmatch(r"[0-9a-f]{40}\+?", named):
            raise UserError(f"TWOCLOCKS_COMMIT: {named!r} is not a whole commit; give what `git rev-parse HEAD` prints")
        return named
    folder = Path(__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "HEAD")
    if head is None or git("ls-files", "--error-unmatch", "provenance.py") is None:
        return None
    return head + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def machine(device: str) -> dict[str, Any]:
    """Device, name of the GPU or processor, threads and operating system."""
    import torch

    name = torch.cuda.get_device_name() if device.startswith("cuda") else processor_name()
    return {"device": device, "name": name, "threads": torch.get_num_threads(), "system": platform.system()}
