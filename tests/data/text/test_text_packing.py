"""Text from the disk: the same documents and tokens as a slow program that reads everything at once."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twoclocks.core.errors import UserError
from twoclocks.core.packed_text import LETTERS, PackedText
from twoclocks.data.text import documents, encoders, pack, reading
from twoclocks.data.text.options import DOCUMENTS

TEXT = "Ünder the  Moon-light,\n42 owls\n\n \t\nsang… \U0001f989\U0001f989 K\n\n\n\nhoot hoot\r\nThe end.\r\n"


def decoded(packed: PackedText) -> list[str]:
    return [packed.vocabulary.decode(packed.tokens[a:b].tolist()) for a, b in pairwise(packed.starts)]


def slow_documents(text: str, unit: str, block: int) -> list[str]:
    """The documents of a text that is read whole, by other means than the package's."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if unit == "block":
        return [text[i : i + block] for i in range(0, len(text), block)]
    found = {"file": lambda: [text], "line": lambda: text.split("\n"), "paragraph": lambda: re.split(r"\n\s*\n", text)}
    pieces: list[str] = found[unit]()
    return pieces if unit == "file" else [piece.strip() for piece in pieces if piece.strip()]


def slow_letters(text: str, unit: str) -> str:
    found = re.sub("[^a-z]+", " ", text.lower())
    return found if unit == "block" else found.strip()


def block_of(unit: str, block: int) -> int | None:
    """Only blocks have a length."""
    return block if unit == "block" else None


def slow_pack(text: str, tokens: str, unit: str, block: int) -> list[str]:
    pieces = slow_documents(text, unit, block)
    if tokens == "letters":
        pieces = [slow_letters(piece, unit) for piece in pieces]
    return list(dict.fromkeys(piece for piece in pieces if piece))


@pytest.mark.parametrize("unit", DOCUMENTS)
@pytest.mark.parametrize("tokens", ["letters", "characters", "bytes"])
def test_tokens_decode_to_the_documents(tmp_path: Path, tokens: str, unit: str) -> None:
    (tmp_path / "in").mkdir()
    for name in "ab":  # two files, so that "file" has two documents
        (tmp_path / "in" / f"{name}.txt").write_bytes(f"{name} {TEXT}".encode())
    packed = pack(tmp_path / "in", tmp_path / "out", tokens=tokens, documents=unit, block=block_of(unit, 7))
    expected = [piece for name in "ab" for piece in slow_pack(f"{name} {TEXT}", tokens, unit, 7)]
    assert decoded(packed) == list(dict.fromkeys(expected))
    assert packed.about["counts"]["duplicates"] == len(expected) - len(packed)
    assert isinstance(packed.tokens, np.memmap) and packed.tokens.dtype == np.uint8


ALPHABET = "aBz K\u0130é…\U0001f989\ufeff \t\n\n\r\x0b\u2028."


@settings(max_examples=300, deadline=None)
@given(
    text=st.text(ALPHABET, max_size=60),
    chunk=st.integers(1, 9),
    enough=st.integers(1, 9),
    block=st.integers(1, 9),
    tokens=st.sampled_from(["letters", "characters", "bytes"]),
    unit=st.sampled_from(["line", "paragraph", "block"]),
)
def test_where_the_parts_end_makes_no_difference(
    text: str, chunk: int, enough: int, block: int, tokens: str, unit: str
) -> None:
    expected = slow_pack(text, tokens, unit, block)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "CHUNK", chunk)  # ends inside of characters, of line ends and of runs of spaces
        patch.setattr(documents, "ENOUGH", enough)
        (path := Path(folder) / "text.txt").write_bytes(text.encode())
        out = Path(folder) / "out"
        if len(expected) < 2 or not text.strip("\ufeff").strip():
            with pytest.raises(UserError):
                pack(path, out, tokens=tokens, documents=unit, block=block_of(unit, block))
            assert not out.exists()
        else:
            assert decoded(pack(path, out, tokens=tokens, documents=unit, block=block_of(unit, block))) == expected


@settings(max_examples=200, deadline=None)
@given(parts=st.lists(st.text("aB .é", max_size=4), max_size=12), is_running=st.booleans())
def test_letters_of_parts_are_the_letters_of_the_whole(parts: list[str], is_running: bool) -> None:
    encoder = encoders.Letters(is_running)
    for _ in range(2):  # the second document begins as if there were no first
        tokens = np.concatenate([*(encoder.encode(part) for part in parts), encoder.finish()])
        expected = slow_letters("".join(parts), "block" if is_running else "file")
        assert "".join(LETTERS[token] for token in tokens) == expected


def test_blocks_of_text8_in_a_row_are_text8(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = " " + " ".join("".join(rng.choice(list("abcxyz"), 5)) for _ in range(400)) + " "
    (tmp_path / "text8").write_text(text, encoding="utf-8")
    packed = pack(tmp_path / "text8", tmp_path / "out", tokens="letters", documents="block", block=64)
    assert packed.vocabulary.decode(packed.tokens.tolist()) == text
    assert np.diff(packed.starts).tolist() == [64] * (len(text) // 64) + [len(text) % 64] * (len(text) % 64 > 0)


def test_a_folder_is_read_in_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.md", "a/.hidden", ".git/config", "c", "a/same"):
        (path := tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text("c" if name == "a/same" else name, encoding="utf-8")
    packed = pack(tmp_path / "in", tmp_path / "out", tokens="characters")
    assert decoded(packed) == ["c", "a/z.md", "b.txt"]
    assert packed.about["duplicates"] == [["c", "a/same"]] and packed.about["source"] == "folder in"
    kept = pack(tmp_path / "in", tmp_path / "out", tokens="characters", keep_duplicates=True)
    assert decoded(kept) == ["c", "a/z.md", "b.txt", "c"] and kept.summary()["duplicates"] == 0
    (tmp_path / "in" / "a" / "back").symlink_to(tmp_path / "in")
    with pytest.raises(UserError, match="is the same folder as"):
        pack(tmp_path / "in", tmp_path / "out", tokens="characters")


def test_the_same_text_elsewhere_gives_the_same_file(tmp_path: Path) -> None:
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "t.txt").write_text(TEXT, encoding="utf-8")
        pack(tmp_path / place / "t.txt", tmp_path / f"{place}.out", tokens="bytes", documents="line")
    data = (tmp_path / "here.out").read_bytes()
    assert (tmp_path / "there.out").read_bytes() == data and str(tmp_path).encode() not in data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "here.out", "there", "there.out"]


def test_duplicates_are_counted_and_the_first_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twoclocks.data.text.packing.MOST_LISTED", 3)
    lines = ["two", *["one"] * 10, "TWO!", "123"]
    (tmp_path / "t.txt").write_text("\n".join(lines), encoding="utf-8")
    packed = pack(tmp_path / "t.txt", tmp_path / "out", tokens="letters", documents="line")
    assert decoded(packed) == ["two", "one"]
    assert packed.about["counts"] == {"skipped": 0, "duplicates": 10, "empty": 1}
    assert packed.about["duplicates"] == [[f"t.txt, document {i}", "t.txt, document 2"] for i in (3, 4, 5)]


def test_more_documents_than_memory_allows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twoclocks.data.text.packing.MOST_DOCUMENTS", 3)
    (tmp_path / "t.txt").write_text("a\nb\nc\nd\n", encoding="utf-8")
    with pytest.raises(UserError, match="more than 3 documents; use larger documents"):
        pack(tmp_path / "t.txt", tmp_path / "out", documents="line")


def test_more_characters_than_a_vocabulary_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.txt").write_text("".join(map(chr, range(0x4E00, 0x4E00 + 300))) + "\n二", encoding="utf-8")
    packed = pack(tmp_path / "t.txt", tmp_path / "out", tokens="characters", documents="line")
    assert packed.vocabulary.symbols == 300 and packed.tokens.dtype == np.uint16 and decoded(packed)[1] == "二"
    assert list(packed.vocabulary.table) == sorted(packed.vocabulary.table)
    monkeypatch.setattr(encoders, "MOST_CHARACTERS", 299)
    with pytest.raises(UserError, match="300 distinct characters, more than 299; use --tokens bytes"):
        pack(tmp_path / "t.txt", tmp_path / "out", tokens="characters", documents="line")


def test_progress_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twoclocks.data.text.packing.REPORT_EVERY", 1)
    (tmp_path / "t.txt").write_text("one\ntwo\n", encoding="utf-8")
    seen: list[tuple[int, int, str]] = []

    def report(done: int, total: int, words: str) -> None:
        seen.append((done, total, words))

    pack(tmp_path / "t.txt", tmp_path / "out", documents="line", report=report)
    assert [done for done, _, _ in seen] == [3, 6] and {total for _, total, _ in seen} == {8}


MEASURED = r"""
import re, sys
from pathlib import Path
from twoclocks.data.text import pack

packed = pack("big.txt", "out", tokens=sys.argv[1], documents="block")
peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]  # getrusage has the parent's, if more
print(len(packed.tokens), peak)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
@pytest.mark.parametrize("tokens", ["letters", "characters", "bytes"])
def test_memory_does_not_grow_with_the_text(work: Path, tokens: str) -> None:
    size, letters = 0, str.maketrans("0123456789", "abcdefghij")
    with Path("big.txt").open("w", encoding="utf-8") as stream:
        for start in range(0, 10_000_000, 1_000_000):
            numbers = " ".join(map(str, range(start, start + 1_000_000)))
            size += stream.write(numbers.translate(letters) + "\n")
    done = subprocess.run([sys.executable, "-c", MEASURED, tokens], check=True, capture_output=True, text=True)
    count, peak = map(int, done.stdout.split())
    assert count == size > 75_000_000
    assert peak < 100 * 1024  # kibibytes; 50 MiB are those of Python and numpy
