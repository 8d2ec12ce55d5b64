"""Wrong texts and models for examples/finetune_gpt2.py: one line, exit status 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "finetune_gpt2.py"
pytestmark = pytest.mark.slow
pytest.importorskip("transformers")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe\x00bad", "cannot be read"),
        (b"", "different documents"),
        (b"one line", "different documents"),
        ("\n".join(f"line {k}" for k in range(40)).encode(), "give more or longer documents"),
        (None, "cannot be read"),
    ],
)
def test_a_text_that_cannot_be_used_is_one_line(tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "text.txt").write_bytes(content)
    command = [sys.executable, str(EXAMPLE), "--smoke", "--text", "text.txt"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("finetune_gpt2: --text")]


def test_a_model_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE), "--smoke", "--model", "nope"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "finetune_gpt2: --model nope: is no folder" in done.stderr
