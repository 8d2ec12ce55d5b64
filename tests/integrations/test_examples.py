"""Every example runs in its small form: it stops because of copies, and leaves a gallery and a page."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if path.stem != "tiny_pipeline")  # a part of stable_diffusion
STEPS = {"stable_diffusion": 400}  # of its small form: it ends before
LINES = {"stable_diffusion": 210}  # it also saves, resumes and reads captions; the others have fewer than 80


def test_there_is_an_example_for_every_adapter_and_all_are_short() -> None:
    texts = [path.read_text(encoding="utf-8") for path in EXAMPLES]
    used = {name for text in texts for name in re.findall(r"from twoclocks\.integrations\.(\w+) import", text)}
    assert used == {"pytorch", "lightning", "transformers", "accelerate", "denoising_loss"}
    assert all(len(text.splitlines()) < LINES.get(path.stem, 80) for path, text in zip(EXAMPLES, texts, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_stops_and_leaves_a_gallery_and_a_page(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", [path.name, "--smoke", "--out", "out"])
    runpy.run_path(str(path), run_name="__main__")
    stopped = re.search(r"stop: True at step (\d+)", capsys.readouterr().out)
    assert stopped is not None and int(stopped[1]) < STEPS.get(path.stem, 1 << 40)
    assert (tmp_path / "out" / "copies.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (tmp_path / "out" / "page.html").read_text(encoding="utf-8")
