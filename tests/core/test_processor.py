"""What a system says of its processor, read on Linux and Windows."""

from __future__ import annotations

from pathlib import Path

import pytest

from twoclocks.core.processor import description, family_of, name_of, processor_name

ZEN_4 = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC 9R14
stepping\t: 1
microcode\t: 0xa101154
"""
INTEL = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Intel(R) Xeon(R) Processor\n"


@pytest.mark.parametrize(
    ("words", "name", "family"),
    [
        (ZEN_4, "AMD EPYC 9R14 (family 25, model 17)", 25),
        (INTEL, "Intel(R) Xeon(R) Processor (family 6, model 207)", 0),
        ("Intel64 Family 6 Model 140 Stepping 1, GenuineIntel", "", 0),
        ("AMD64 Family 26 Model 68 Stepping 0, AuthenticAMD", "", 26),
        ("model name\t: ARMv8 Processor rev 1\n", "ARMv8 Processor rev 1", 0),
        ("arm", "", 0),
        ("", "", 0),
    ],
)
def test_name_and_generation_are_read_from_the_description(words: str, name: str, family: int) -> None:
    assert (name_of(words), family_of(words)) == (name, family)


def test_without_a_description_the_name_is_the_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path, **more: str) -> str:
        raise OSError

    description.cache_clear()
    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr("platform.processor", lambda: "")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    try:
        assert processor_name() == "arm64"
    finally:
        description.cache_clear()
