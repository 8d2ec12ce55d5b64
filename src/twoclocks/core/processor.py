"""Which processor this is: for what is stored with a result, and for operations that are chosen by it."""

from __future__ import annotations

import platform
import re
from functools import cache
from pathlib import Path

ZEN_5 = 26  # the family number of AMD's first processors with vector units of 512 bits


@cache
def description() -> str:
    """What the system says of its processor, or of the first of several."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return platform.processor()  # on Windows such as "AMD64 Family 25 Model 33 Stepping 0, AuthenticAMD"


def processor_name() -> str:
    """Such as ``AMD EPYC 9R45 (family 26, model 2)``: the same name is given to different generations in clouds."""
    return name_of(description()) or platform.processor() or platform.machine()


def name_of(words: str) -> str:
    """
    >>> name_of("cpu family : 6\\nmodel : 207\\nmodel name : Intel(R) Xeon(R) Processor")
    'Intel(R) Xeon(R) Processor (family 6, model 207)'
    """
    found: dict[str, str] = dict(re.findall(r"^(cpu family|model|model name)\s*:\s*(.+?)\s*$", words, re.MULTILINE))
    if not {"cpu family", "model", "model name"} <= found.keys():
        return found.get("model name", "")
    return f"{found['model name']} (family {found['cpu family']}, model {found['model']})"


def amd_family() -> int:
    """The number by which AMD names a generation of its processors, such as 25 for Zen 3 and 4; 0: another maker's."""
    return family_of(description())


def family_of(words: str) -> int:
    """
    >>> family_of("AMD64 Family 25 Model 33 Stepping 0, AuthenticAMD")
    25
    """
    found = re.search(r"cpu family\s*:\s*(\d+)|Family (\d+)", words)
    return int(found[1] or found[2]) if found and "AuthenticAMD" in words else 0
