"""Published texts, the text that comes with the package, and tokenizers from disk."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import twoclocks
from twoclocks.core.errors import UserError
from twoclocks.core.packed_text import PackedText
from twoclocks.data.text import BUILT_IN_BOOKS, bible, encoders, fetch, pack, published, read_packed_text

BUILT_IN = Path(twoclocks.__file__).parent / "rules" / "kjv.safetensors"


def document(packed: PackedText, number: int) -> str:
    found: list[int] = packed.tokens[packed.starts[number] : packed.starts[number + 1]].tolist()
    return packed.vocabulary.decode(found)


def test_the_built_in_text() -> None:
    packed = read_packed_text(BUILT_IN)
    assert (len(packed), len(packed.tokens)) == (329, 992_993)  # 50 + 40 + 150 + 28 + 16 + 24 + 21 chapters
    assert document(packed, 0).startswith("in the beginning god created the heaven and the earth and the earth was")
    assert document(packed, 90 + 22).startswith("the lord is my shepherd i shall not want")  # the 23rd psalm
    assert document(packed, 328).endswith("could not contain the books that should be written amen")
    assert packed.digest == "5c14428e6afb6896f78836579824a8ccae10540b90575972a64ffe20721b81bc"
    assert np.bincount(packed.tokens, minlength=27).min() > 0


@pytest.mark.skipif(shutil.which("bible") is None, reason="needs Debian's bible-kjv and bible-kjv-text")
def test_the_built_in_text_is_what_the_debian_package_gives(tmp_path: Path) -> None:
    fetch("kjv", tmp_path / "kjv", books=BUILT_IN_BOOKS)
    assert (tmp_path / "kjv").read_bytes() == BUILT_IN.read_bytes()
    (tmp_path / "verses").write_bytes(bible._run_program())
    fetch("kjv", tmp_path / "again", tmp_path / "verses", books=BUILT_IN_BOOKS)
    assert (tmp_path / "again").read_bytes() == BUILT_IN.read_bytes()
    everything = fetch("kjv", tmp_path / "all", tokens="characters")
    assert len(everything) == 1189 and everything.vocabulary.symbols < 100
    assert document(everything, 0).startswith("In the beginning God created the heaven and the earth.\nAnd the earth")


VERSES = "Ge1:1 In the beginning.\nGe1:2 And the earth.\nGe2:1 Thus the heavens.\n1Jn1:1 That which was.\n"


def test_verses_become_chapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bible, "VERSES_SHA256", hashlib.sha256(VERSES.encode()).hexdigest())
    (tmp_path / "verses").write_text(VERSES, encoding="utf-8")
    packed = fetch("kjv", tmp_path / "out", tmp_path / "verses", tokens="characters")
    assert [document(packed, i) for i in range(3)] == [
        "In the beginning.\nAnd the earth.",
        "Thus the heavens.",
        "That which was.",
    ]
    some = fetch("kjv", tmp_path / "out", tmp_path / "verses", books=["1Jn", "Ge"])
    assert len(some) == 3 and some.about["options"]["books"] == "Ge 1Jn" and some.about["options"]["block"] is None
    with pytest.raises(UserError, match=r"book: 'Gen' is unknown; did you mean 'Ge'"):
        fetch("kjv", tmp_path / "out", tmp_path / "verses", books=["Gen"])


def test_without_the_program_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        UserError, match=r"is not installed; run apt install bible-kjv bible-kjv-text, or name .*--from"
    ):
        fetch("kjv", tmp_path / "out")
    monkeypatch.setattr(published, "WORDS_FILE", str(tmp_path / "none"))
    with pytest.raises(UserError, match=r"does not exist; run apt install wamerican-large, or name .*--from"):
        fetch("words", tmp_path / "out")


def test_a_program_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bible").write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    (tmp_path / "bible").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(bible, "DATA", str(tmp_path / "bible"))
    with pytest.raises(UserError, match=r"bible: fails .*exit status 3.*install it again"):
        fetch("kjv", tmp_path / "out")


def test_words_have_eight_small_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["aardvark", "Abelards", "abacuses", "abashes", "éclaires", "abbey's", "zucchini"]
    (tmp_path / "list").write_text("\n".join(words) + "\n", encoding="utf-8")
    packed = fetch("words", tmp_path / "out", tmp_path / "list")
    assert [document(packed, i) for i in range(3)] == ["aardvark", "abacuses", "zucchini"] and len(packed) == 3
    monkeypatch.setattr(published, "WORDS_FILE", str(tmp_path / "list"))
    with pytest.raises(UserError, match=r"has the SHA-256 .* instead of 7722e490a157….*--from"):
        fetch("words", tmp_path / "out")


@pytest.mark.skipif(not Path(published.WORDS_FILE).is_file(), reason="needs Debian's wamerican-large")
def test_the_words_of_debian(tmp_path: Path) -> None:
    packed = fetch("words", tmp_path / "out")
    assert len(packed) == 17_836 and set(np.diff(packed.starts).tolist()) == {8}


def test_glosses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {
        "data.noun": '  1 the licence | not a gloss\n00001740 03 n 01 entity 0 000 | that which is; "a | b"  \n',
        "data.verb": "00001740 29 v 01 breathe 0 000 01 + 02 00 | draw air  \n",
        "data.adj": "00001740 00 a 01 able 0 000 | draw air  \n",
        "data.adv": "00001740 02 r 01 barely 0 000 | only just  \n",
    }
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in lines.items()}
    monkeypatch.setattr(published, "WORDNET_FILES", digests)
    for name, text in lines.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    packed = fetch("wordnet", tmp_path / "out", tmp_path, tokens="characters")
    assert [document(packed, i) for i in range(3)] == ['that which is; "a | b"', "draw air", "only just"]
    assert packed.about["duplicates"] == [["data.adj 00001740", "data.verb 00001740"]]
    (tmp_path / "data.adv").write_text("other", encoding="utf-8")
    with pytest.raises(UserError, match=r"data.adv: has the SHA-256 .* install WordNet 3.0 again"):
        fetch("wordnet", tmp_path / "out", tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not Path(published.WORDNET_FOLDER).is_dir(), reason="needs Debian's wordnet-base")
def test_the_glosses_of_debian(tmp_path: Path) -> None:
    packed = fetch("wordnet", tmp_path / "out")
    assert len(packed) + packed.summary()["duplicates"] == 117_659


def test_text8_is_checked_and_cut_into_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = " anarchism originated as a term of abuse" * 3
    (tmp_path / "text8").write_text(text, encoding="utf-8")
    monkeypatch.setattr(published, "TEXT8_BYTES", len(text))
    with pytest.raises(UserError, match=r"text8: has the MD5 .* instead of 3bea1919949b….*data pack --documents block"):
        fetch("text8", tmp_path / "out", tmp_path / "text8")
    monkeypatch.setattr(published, "TEXT8_MD5", hashlib.md5(text.encode()).hexdigest())
    packed = fetch("text8", tmp_path / "out", tmp_path / "text8", block=30)
    assert np.diff(packed.starts).tolist()[:2] == [30, 30] and packed.about["source"] == "text8"
    (tmp_path / "text8").write_text(text + "x", encoding="utf-8")
    with pytest.raises(UserError, match=r"has more than"):
        fetch("text8", tmp_path / "out", tmp_path / "text8")


SONG = ["Row, row, row your böat", "gently down the stream…", "Merrily merrily", "life is but a dream \U0001f6f6"]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A small byte-level tokenizer, which would cut, pad and mark what it is given."""
    library = pytest.importorskip("tokenizers")
    found = library.ByteLevelBPETokenizer()
    found.train_from_iterator(SONG, vocab_size=300, min_frequency=1, special_tokens=["<s>"])
    found.enable_truncation(3)
    found.enable_padding(length=50)
    found.post_processor = library.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    found.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_a_tokenizer_from_disk(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "song.txt").write_text("\n".join(SONG), encoding="utf-8")
    packed = pack(tmp_path / "song.txt", tmp_path / "out", tokens=str(tokenizer), documents="line")
    assert [document(packed, i) for i in range(4)] == SONG and packed.tokens.dtype == np.uint16
    assert packed.vocabulary.symbols == 300 and packed.vocabulary.table == tokenizer.read_text(encoding="utf-8")
    assert packed.about["options"]["tokens"] == "tokenizer.json"
    assert len(packed.tokens) < len("\n".join(SONG).encode())


def test_a_tokenizer_is_not_given_more_than_it_can_take(
    tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "MOST_AT_ONCE", 20)
    (tmp_path / "song.txt").write_text("\n".join(SONG), encoding="utf-8")
    with pytest.raises(UserError, match=r"a document has more than 20 characters.*--documents paragraph"):
        pack(tmp_path / "song.txt", tmp_path / "out", tokens=str(tokenizer), documents="line")


def test_tokens_outside_of_the_vocabulary_are_refused(tmp_path: Path, tokenizer: Path) -> None:
    content = json.loads(tokenizer.read_text(encoding="utf-8"))
    content["model"]["vocab"]["r"] = 999  # a gap: there are 300 tokens
    tokenizer.write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "song.txt").write_text("\n".join(["r", *SONG]), encoding="utf-8")
    with pytest.raises(UserError, match=r"tokenizer.json: gives the token 999, but it has only 300"):
        pack(tmp_path / "song.txt", tmp_path / "out", tokens=str(tokenizer), documents="line")


def test_a_tokenizer_that_does_not_know_a_word(tmp_path: Path, tokenizer: Path) -> None:
    library = pytest.importorskip("tokenizers")
    words = library.Tokenizer(library.models.WordLevel({"row": 0}, unk_token="unknown"))
    words.save(str(tokenizer))
    (tmp_path / "song.txt").write_text("\n".join(["row", *SONG]), encoding="utf-8")
    with pytest.raises(UserError, match=r"tokenizer.json: cannot encode 'Row, row, row your böat' \(.*\); use"):
        pack(tmp_path / "song.txt", tmp_path / "out", tokens=str(tokenizer), documents="line")
