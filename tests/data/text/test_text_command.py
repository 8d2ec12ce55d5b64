"""``twoclocks data`` on text: pack, show and fetch as a person uses them; bad input in one line, exit code 2."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from twoclocks.cli import main
from twoclocks.core.errors import UserError
from twoclocks.core.packed_text import read_packed_text
from twoclocks.data.text import pack


def test_pack_then_show(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "notes").mkdir()
    for name, text in {"a.txt": "One.\n\nTwo.", "b.txt": "two\n\nthree", "c.txt": ""}.items():
        (work / "notes" / name).write_text(text, encoding="utf-8")
    words = ["--tokens", "letters", "--documents", "paragraph", "--skip-bad", "--json"]
    assert main(["data", "pack", "notes", "--out", "t.safetensors", *words]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["documents"], made["tokens"], made["vocabulary"]) == (3, 11, "letters, 27 symbols")
    assert made["duplicates_list"] == [["b.txt, document 1", "a.txt, document 2"]] and made["duplicates"] == 1
    assert made["skipped"] == 1 and made["skipped_list"][0].startswith("c.txt: is empty (0 bytes)")
    assert made["options"] == {"tokens": "letters", "documents": "paragraph", "block": None}
    assert main(["data", "show", "t.safetensors", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == made
    assert main(["data", "show", "t.safetensors"]) == 0
    printed = capsys.readouterr().out
    assert "skipped: c.txt: is empty" in printed and "dropped: b.txt, document 1 equals a.txt, document 2" in printed
    assert load_file("t.safetensors")["tokens"].tolist() == read_packed_text("t.safetensors").tokens.tolist()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def content(data: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


BAD_FILES: dict[str, tuple[Callable[[Path], None], str]] = {  # how to make the file, what the line says
    "latin-1": (content("Käse\n".encode("latin-1")), r"is not UTF-8 \(byte 0xe4 at position 1\); convert it"),
    "cut off": (content("Käs\nKäse €".encode()[:-1]), r"is not UTF-8 \(byte 0xe2 at position 11\)"),
    "utf-16": (content("text\n".encode("utf-16")), "is UTF-16; convert it"),
    "nul": (content(b"one\ntwo\0\n"), "has a NUL character"),
    "binary": (content(bytes(range(256))), "has a NUL character|is not UTF-8"),
    "empty": (content(b""), r"is empty \(0 bytes\)"),
    "blank": (content(b" \n\t\n"), "has only white space"),
    "pipe": (make_pipe, "is not a regular file"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_named_or_left_out(work: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    make, line = BAD_FILES[case]
    (work / "in").mkdir()
    (work / "in" / "a.txt").write_text("one\ntwo", encoding="utf-8")
    make(work / "in" / "b.txt")
    words = ["--out", "x", "--tokens", "bytes", "--documents", "line"]
    for source in ("in", "in/b.txt"):
        assert main(["data", "pack", source, *words]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.count("\n") == 1 and not Path("x").exists()
        with pytest.raises(UserError, match=rf"^in/b.txt: .*({line}).*--skip-bad$"):
            pack(source, "x", tokens="bytes", documents="line")
    packed = pack("in", "x", tokens="bytes", documents="line", skip_bad=True)
    assert len(packed) == 2 and len(packed.about["skipped"]) == 1 and packed.about["skipped"][0].startswith("b.txt: ")
    with pytest.raises(UserError, match="no text that can be used; the first of 1 skipped: "):
        pack("in/b.txt", "y", tokens="bytes", documents="line", skip_bad=True)


BAD = {  # what is wrong: (words, what the line must contain)
    "no tokens": (["pack", "t.txt", "--out", "x"], ["t.txt: is of no known kind", "--tokens letters"]),
    "folder without tokens": (["pack", "texts", "--out", "x"], ["texts: has no images", "--tokens letters"]),
    "documents without tokens": (["pack", "t.txt", "--out", "x", "--documents", "line"], ["--documents", "--tokens"]),
    "no out": (["pack", "t.txt", "--tokens", "bytes"], ["--out: is missing"]),
    "no source": (["pack", "nowhere", "--out", "x", "--tokens", "bytes"], ["nowhere: does not exist"]),
    "empty folder": (["pack", "empty", "--out", "x", "--tokens", "bytes"], ["empty: has no files"]),
    "one document": (["pack", "t.txt", "--out", "x", "--tokens", "bytes"], ["is one document", "--documents"]),
    "all equal": (
        ["pack", "same.txt", "--out", "x", "--tokens", "letters", "--documents", "line"],
        ["all its 3 documents are equal"],
    ),
    "no letters": (["pack", "han.txt", "--out", "x", "--tokens", "letters"], ["han.txt: has no text", "letters"]),
    "image option": (["pack", "t.txt", "--out", "x", "--tokens", "bytes", "--size", "8"], ["--size", "images"]),
    "text option": (["fetch", "digits", "--tokens", "bytes"], ["--tokens", "belongs to text"]),
    "books of pack": (["pack", "t.txt", "--out", "x", "--tokens", "bytes", "--books", "Ge"], ["--books", "fetch kjv"]),
    "books of words": (["fetch", "words", "--books", "Ge"], ["books: belongs to kjv"]),
    "block of words": (["fetch", "words", "--block", "9"], ["block: belongs to text8"]),
    "documents of words": (["fetch", "words", "--documents", "line"], ["documents: words has its own"]),
    "unknown unit": (["pack", "t.txt", "--out", "x", "--tokens", "bytes", "--documents", "page"], ["'page'", "line"]),
    "block of lines": (
        ["pack", "t.txt", "--out", "x", "--tokens", "bytes", "--documents", "line", "--block", "9"],
        ["block: 9", "documents are line", "--documents block"],
    ),
    "foreign file": (["show", "t.txt"], ["t.txt: is no file of packed images or text"]),
    "wrong block": (
        ["pack", "t.txt", "--out", "x", "--tokens", "bytes", "--documents", "block", "--block", "0"],
        ["block: 0", "1073741824"],
    ),
    "no tokenizer": (["pack", "t.txt", "--out", "x", "--tokens", "letterz"], ["'letterz'", "letters, characters"]),
    "tokens are a text": (["pack", "t.txt", "--out", "x", "--tokens", "t.txt"], ["t.txt: the tokenizer cannot"]),
    "tokens are a folder": (["pack", "t.txt", "--out", "x", "--tokens", "texts"], ["'texts'", "regular file"]),
    "tokens are bytes": (["pack", "t.txt", "--out", "x", "--tokens", "latin.txt"], ["'latin.txt' is not UTF-8"]),
    "no folder for out": (["pack", "texts", "--out", "no/x", "--tokens", "bytes"], ["no/x: cannot be written"]),
    "out is a folder": (["pack", "texts", "--out", "empty", "--tokens", "bytes"], ["empty: cannot be written"]),
    "unknown set": (["fetch", "text9"], ["'text9'", "text8"]),
    "text8 from nowhere": (["fetch", "text8"], ["text8: comes with no package", "--from PATH"]),
    "another text8": (["fetch", "text8", "--from", "t.txt"], ["t.txt: has 8 bytes", "100,000,000", "data pack"]),
    "no verses": (["fetch", "kjv", "--from", "t.txt"], ["t.txt: the verses have the SHA-256", "apt install bible-kjv"]),
    "no word list": (["fetch", "words", "--from", "gone"], ["gone: cannot be read", "--from"]),
    "no long words": (["fetch", "words", "--from", "t.txt"], ["t.txt: has no word of eight letters"]),
    "no wordnet": (["fetch", "wordnet", "--from", "empty"], ["data.noun: does not exist", "apt install wordnet-base"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(work: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    (work / "texts").mkdir()
    (work / "empty").mkdir()
    files = {
        "t.txt": "one\ntwo\n",
        "same.txt": "One\none\none!",
        "han.txt": "一\n二",
        "texts/a.txt": "a",
        "texts/b.txt": "b",
    }
    for name, text in files.items():
        (work / name).write_text(text, encoding="utf-8")
    (work / "latin.txt").write_bytes(b"\xe4")
    words, parts = BAD[case]
    assert main(["data", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1, printed.err
    assert all(part in printed.err for part in parts), printed.err
    assert sorted(path.name for path in work.iterdir()) == sorted(
        ["texts", "empty", "latin.txt", *(name for name in files if "/" not in name)]
    )


def test_hostile_names_are_shown_escaped(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "p").mkdir()
    for name in (b"a\x1b[31m\n.txt", b"b\xff.txt"):
        Path(os.fsdecode(b"p/" + name)).write_bytes(name[:1])
        Path(os.fsdecode(b"p/bad" + name)).write_bytes(b"")
        Path(os.fsdecode(b"p/twin" + name)).write_bytes(name[:1])
    words = ["--tokens", "bytes", "--skip-bad"]
    assert main(["data", "pack", "p", "--out", "x", *words]) == 0 and main(["data", "show", "x"]) == 0
    printed = capsys.readouterr()
    assert all(line.isprintable() for line in (printed.out + printed.err).split("\n"))
    assert "\\x1b[31m" in printed.out


def test_every_flipped_bit_and_every_cut_is_noticed(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.txt").write_text("one\ntwo\nthree", encoding="utf-8")
    pack("t.txt", "x", tokens="characters", documents="line")
    data = Path("x").read_bytes()
    rng = np.random.default_rng(0)
    for position in [*range(8), *rng.integers(8, len(data), 60).tolist(), len(data) - 1]:
        damaged = bytearray(data)
        damaged[position] ^= 1 << int(rng.integers(8))
        Path("x").write_bytes(damaged)
        with pytest.raises(UserError, match=r"^x: .*data pack"):
            read_packed_text("x")
        assert main(["data", "show", "x"]) == 2 and capsys.readouterr().err.count("\n") == 1
    for length in (0, 7, 8, 100, len(data) - 1):
        Path("x").write_bytes(data[:length])
        with pytest.raises(UserError, match=r"^x: "):
            read_packed_text("x")
    Path("x").write_bytes(data)
    assert main(["data", "show", "x"]) == 0


@pytest.mark.parametrize("limit", [0, 100])
def test_a_full_disk_is_one_line(work: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    Path("t.txt").write_text("one\ntwo\n" * 3, encoding="utf-8")
    stream = Path("/dev/full").open("wb", buffering=limit)  # noqa: SIM115 (the packing closes it)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda dir: stream)
    with pytest.raises(UserError, match=r"^x: cannot be written"):
        pack("t.txt", "x", tokens="bytes", documents="line", keep_duplicates=True)
    assert not Path("x").exists()
