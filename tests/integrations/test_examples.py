"""Every example runs in its small form: it stops because of copies, and leaves a gallery and a page."""

from __future__ import annotations

import random
import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if path.stem != "tiny_pipeline")  # a part of stable_diffusion
(FINE_TUNING,) = (path for path in EXAMPLES if path.stem == "finetune_gpt2")
STEPS = {"stable_diffusion": 400}  # of its small form: it ends before
# Whole programs to copy; the others show one adapter.
LINES = {FINE_TUNING.stem: 170, "stable_diffusion": 210}


def test_there_is_an_example_for_every_adapter_and_all_are_short() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES}
    used = {name for text in texts.values() for name in re.findall(r"from twoclocks\.integrations\.(\w+) import", text)}
    assert used == {"pytorch", "lightning", "transformers", "accelerate", "denoising_loss"}
    assert all(len(text.splitlines()) < LINES.get(name, 80) for name, text in texts.items())


def run(path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", [path.name, "--smoke", *arguments])
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in EXAMPLES if path != FINE_TUNING], ids=lambda path: path.stem)
def test_example_stops_and_leaves_a_gallery_and_a_page(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(path, monkeypatch, "--out", "out")
    stopped = re.search(r"stop: True at step (\d+)", capsys.readouterr().out)
    assert stopped is not None and int(stopped[1]) < STEPS.get(path.stem, 1 << 40)
    check_files(tmp_path / "out", 1)


def check_files(folder: Path, number: int) -> None:
    """So many galleries and as many pages are there."""
    pictures, pages = (sorted(folder.glob(f"*.{kind}")) for kind in ("png", "html"))
    assert len(pictures) == number and all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    assert len(pages) == number and all("<html" in page.read_text(encoding="utf-8") for page in pages)


@pytest.mark.slow
def test_fine_tuning_stops_at_extracted_training_pieces_before_free_samples_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(FINE_TUNING, monkeypatch, "--out", str(tmp_path / "model"))
    printed = capsys.readouterr().out
    shares = [tuple(map(float, pair)) for pair in re.findall(r"training ([\d.]+)%, held-out ([\d.]+)%", printed)]
    assert len(shares) > 2 and shares[0] == (0, 0) and 0 < shares[-1][0] < 20 and shares[-1][1] < 1
    assert printed.count("longest shared run in tokens, samples (held-out): median") == len(shares)
    assert "runs: stop: False" in printed and "extraction: stop: True" in printed and "copies may reach" in printed
    check_files(tmp_path / "model", 2)

    # What it has written can be read again, and so can documents in a folder: these are the same, and already known.
    (tmp_path / "text").mkdir()
    for name in re.search(r'names = "(.*)"', FINE_TUNING.read_text(encoding="utf-8"))[1].split():  # type: ignore[index]
        shutil.copy(Path(random.__file__).parent / f"{name}.py", tmp_path / "text" / f"{name}.txt")
    more = ["--model", str(tmp_path / "model"), "--text", str(tmp_path / "text"), "--out", str(tmp_path / "again")]
    run(FINE_TUNING, monkeypatch, *more)
    again = capsys.readouterr().out
    assert again.splitlines()[0] == printed.splitlines()[0] and "extraction: stop: True" in again
    known = re.search(r"training ([\d.]+)%, held-out", again)
    assert known is not None and float(known[1]) > 1 and again.count("continued verbatim") < len(shares) / 2
