"""Which processor this is, as far as the choice of operations depends on it."""

from __future__ import annotations

import platform
import re
from functools import cache
from pathlib import Path

ZEN_5 = 26  # the family number of AMD's first processors with vector units of 512 bits


@cache
def amd_family() -> int:
    """The number by which AMD names a generation of its processors, such as 25 for Zen 3 and 4; 0: another maker's."""
    try:
        words = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        words = platform.processor()  # on Windows such as "AMD64 Family 25 Model 33 Stepping 0, AuthenticAMD"
    return family_of(words)


def family_of(words: str) -> int:
    """
    >>> family_of("AMD64 Family 25 Model 33 Stepping 0, AuthenticAMD")
    25
    """
    found = re.search(r"cpu family\s*:\s*(\d+)|Family (\d+)", words)
    return int(found[1] or found[2]) if found and "AuthenticAMD" in words else 0
