"""What a packed text must not lose without a word: characters, unknown tokens, changes, the user's own file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.packed_text import LETTERS, Vocabulary, make_packed_text
from twoclocks.data.text import pack
from twoclocks.data.text.options import TextOptions
from twoclocks.data.text.packing import TextSource, pack_source
from twoclocks.rules.text import Text

LINES = "the cat sat on the mat\nthe dog ran to the cat\na bird sang to the dog\n"


def written(folder: Path, text: str, name: str = "text.txt") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def tokenizer_file(folder: Path, kind: str, words: list[str]) -> str:
    tokenizers = pytest.importorskip("tokenizers")
    models, pre = tokenizers.models, tokenizers.pre_tokenizers
    if kind == "characters":  # one that has no token for what it does not know
        made = tokenizers.Tokenizer(models.BPE(vocab={word: k for k, word in enumerate(words)}, merges=[]))
    else:
        vocabulary = {word: k for k, word in enumerate(["[UNK]", *words])}
        made = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        made.pre_tokenizer = pre.Whitespace()
    made.save(str(folder / "tokenizer.json"))
    return str(folder / "tokenizer.json")


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        ("characters", [*"abcde"], r"does not know this text: [\d.]+% of its characters would be lost characters"),
        ("words", ["the", "cat"], r"[\d.]+% of its tokens would be unknown tokens; use a tokenizer of this language"),
    ],
)
def test_a_tokenizer_of_another_vocabulary_is_refused(
    tmp_path: Path, kind: str, words: list[str], message: str
) -> None:
    path = tokenizer_file(tmp_path, kind, words)
    with pytest.raises(UserError, match=message):
        pack(written(tmp_path, LINES), tmp_path / "out", tokens=path, documents="line")
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_that_knows_the_text_is_taken_and_few_unknown_words_are_counted(tmp_path: Path) -> None:
    path = tokenizer_file(tmp_path, "words", sorted(set(LINES.split())))
    packed = pack(written(tmp_path, LINES), tmp_path / "out", tokens=path, documents="line")
    assert packed.about["counts"]["unknown tokens"] == packed.about["counts"]["lost characters"] == 0
    lines = "".join(f"the cat sat on the mat {' '.join(['dog'] * k)}\n" for k in range(1, 30)) + "a zebra\n"
    counts = pack(written(tmp_path, lines), tmp_path / "out", tokens=path, documents="line").about["counts"]
    assert counts["unknown tokens"] == 1


def test_characters_per_token_are_those_of_the_source(tmp_path: Path) -> None:
    path = tokenizer_file(tmp_path, "words", sorted(set(LINES.split())))
    packed = pack(written(tmp_path, LINES), tmp_path / "out", tokens=path, documents="line")
    characters = sum(map(len, LINES.split("\n")))
    assert packed.characters_per_token(packed.tokens) == pytest.approx(characters / len(LINES.split()))
    unknown = pack(written(tmp_path, LINES * 40 + "x\n", "b.txt"), tmp_path / "b", tokens=path, documents="line",
                   keep_duplicates=True)  # fmt: skip
    assert unknown.about["counts"]["unknown tokens"] == 1 and unknown.characters_per_token(unknown.tokens) is None


@pytest.mark.parametrize("length", [16, 25, 32])
def test_bytes_of_cut_characters_are_not_counted_twice(tmp_path: Path, length: int) -> None:
    """Every character here has three bytes, wherever a piece begins."""
    rng = np.random.default_rng(0)
    lines = "\n".join("".join(map(chr, rng.integers(0x4E00, 0x9000, 200))) for _ in range(30))
    packed = pack(written(tmp_path, lines), tmp_path / "out", tokens="bytes", documents="line")
    rows = packed.tokens[: len(packed.tokens) // length * length].reshape(-1, length)
    assert packed.characters_per_token(rows) == pytest.approx(1 / 3, abs=2e-3)


def test_a_text_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    text = written(tmp_path, LINES)
    parts = [LINES[:23], LINES[23:]]

    def source(change: Any) -> TextSource:
        def events() -> Any:
            for number, part in enumerate(parts):
                yield part
                yield number
            change()

        return TextSource("file", len(LINES), events, str, files=(text,))

    def touch() -> None:
        os.utime(text, ns=(1, 1))

    with pytest.raises(UserError, match="changed while it was read"):
        pack_source(source(touch), tmp_path / "out", TextOptions())
    reads = iter([LINES[:23], LINES[:23] + "Q"])

    def growing() -> Any:
        yield next(reads)
        yield 0
        yield "other"
        yield 1

    with pytest.raises(UserError, match="changed while it was read"):
        pack_source(TextSource("file", 9, growing, str), tmp_path / "out", TextOptions(tokens="characters"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("is_link", [False, True])
def test_the_text_itself_is_never_replaced(tmp_path: Path, is_link: bool) -> None:
    text = written(tmp_path, LINES)
    out = tmp_path / "link" if is_link else text
    if is_link:
        out.symlink_to(text)
    with pytest.raises(UserError, match="is the text itself"):
        pack(text, out, documents="line")
    assert text.read_text(encoding="utf-8") == LINES


@pytest.mark.parametrize("token", [27, 300, -1])
def test_tokens_outside_the_vocabulary_are_refused(token: int) -> None:
    tokens: Any = np.array([1, token, 3, 4], dtype=np.int64)
    origin: dict[str, Any] = {"source": "s", "options": {}, "skipped": [], "duplicates": []}
    with pytest.raises(UserError, match=rf"tokens: {token} is not in the vocabulary of 27 symbols"):
        make_packed_text(tokens, np.array([0, 2, 4]), Vocabulary("letters", LETTERS, 27), origin)


def test_a_file_that_is_replaced_is_read_again_and_old_rules_keep_their_text(tmp_path: Path) -> None:
    first, second = LINES * 3, "".join(f"{line} indeed\n" for line in LINES.splitlines())
    file = tmp_path / "packed"
    pack(written(tmp_path, first), file, documents="line")
    old = Text(file=str(file), length=4)
    before = old.members()
    pack(written(tmp_path, second), file, documents="line", tokens="characters")
    new = Text(file=str(file), length=4)
    assert new.sha256 != old.sha256 and new.symbols != old.symbols
    assert old.members().equal(before) and old.symbols == 27
    with pytest.raises(SettingError, match="sha256"):
        Text(file=str(file), length=4, sha256=old.sha256)
