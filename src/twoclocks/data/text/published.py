"""Published texts in their own files: Debian's word list, the glosses of WordNet, text8."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from twoclocks.core.errors import UserError
from twoclocks.core.reading import open_file, read_file
from twoclocks.data.text.options import TextOptions
from twoclocks.data.text.packing import TextSource
from twoclocks.data.text.sources import source_of_files, source_of_texts

MOST_BYTES = 1 << 28
WORDS_INSTALL, WORDNET_INSTALL = "apt install wamerican-large", "apt install wordnet-base"
WORDS_FILE = "/usr/share/dict/american-english-large"
WORDS_SHA256 = "7722e490a1575058326569c778fcb8e93b3cf866452c0f54bfd1c22817ad5a90"  # of version 2020.12.07
WORD = re.compile("[a-z]{8}")
WORDNET_FOLDER = "/usr/share/wordnet"
WORDNET_FILES = {  # version 3.0
    "data.noun": "fea17d2f9656611334eac790e5d69e47645fa180c4aa481fb4cd9b3520754ca2",
    "data.verb": "adcf43e35b581e8036d8b5a52d63d9cd3d3b4870b2720d3c03c799df44777bc2",
    "data.adj": "c89120dfc1f046ddff4a631bf9b7e9fa1a36b5e86565a23bf82dbe14f30b88a7",
    "data.adv": "444a63bf3955080ab7524f5079cfc07ff9bc682cb98bdb1db73b0fb9829f1139",
}
TEXT8_BYTES = 100_000_000
TEXT8_MD5 = "3bea1919949baf155f99411df5fada7e"  # its author publishes no stronger hash


def words_source(source: Path | str | None) -> TextSource:
    """Every word of eight small letters a to z, in the order of the list.

    ``source``: another list with one word per line, which is taken as it is: Debian's list grows with its releases.
    """
    path = Path(WORDS_FILE if source is None else source)
    if source is None:
        fix = "name it with --from to use it all the same"
        text = _checked(path, WORDS_SHA256, f"run {WORDS_INSTALL}, or name a word list with --from", fix)
    else:
        text = read_file(path, MOST_BYTES, fix="name a word list with --from")
    try:
        lines = text.decode().split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8; name another word list with --from") from None
    found = {word: word for word in map(str.strip, lines) if WORD.fullmatch(word)}
    if not found:
        raise UserError(f"{path}: has no word of eight letters a to z; name another word list with --from")
    words = f"words of eight letters of {path.name}" + (" (Debian's wamerican-large)" if source is None else "")
    return source_of_texts(words, found, {"documents": "word"})


def wordnet_source(source: Path | str | None) -> TextSource:
    """The gloss of every set of synonyms: a definition, often with examples; nouns, verbs, adjectives, adverbs."""
    folder = Path(WORDNET_FOLDER if source is None else source)
    missing = f"run {WORDNET_INSTALL}, or name the folder of its files with --from"
    glosses = {}
    for name, digest in WORDNET_FILES.items():
        text = _checked(folder / name, digest, missing, f"install WordNet 3.0 again ({WORDNET_INSTALL})").decode()
        for line in text.splitlines():
            if not line.startswith("  "):  # such lines are the licence
                data, _, gloss = line.partition(" | ")
                glosses[f"{name} {data.split(' ', 1)[0]}"] = gloss.strip()
    return source_of_texts("glosses of WordNet 3.0 (Debian's wordnet-base)", glosses, {"documents": "gloss"})


def text8_source(source: Path | str | None, options: TextOptions) -> TextSource:
    """text8, the first 10^8 characters of a cleaned Wikipedia, in blocks."""
    if source is None:
        raise UserError("text8: comes with no package; name your file with --from PATH")
    digest = hashlib.md5(usedforsecurity=False)
    fix = "use the file text8 itself, or twoclocks data pack --documents block for another text"
    with open_file(source, fix="name the file text8 with --from") as stream:
        size = 0
        while (data := stream.read(1 << 20)) and size <= TEXT8_BYTES:
            digest.update(data)
            size += len(data)
    if size != TEXT8_BYTES:
        found = (
            f"more than {TEXT8_BYTES:,} bytes" if size > TEXT8_BYTES else f"{size:,} bytes instead of {TEXT8_BYTES:,}"
        )
        raise UserError(f"{source}: has {found}; {fix}")
    if digest.hexdigest() != TEXT8_MD5:
        raise UserError(f"{source}: has the MD5 {digest.hexdigest()[:12]}… instead of {TEXT8_MD5[:12]}…; {fix}")
    return source_of_files("text8", {"text8": Path(source)}, options)


def _checked(path: Path, digest: str, missing: str, other: str) -> bytes:
    """The content of a package's file whose SHA-256 is the known one; else an error that ends with what to do."""
    if not path.is_file():
        raise UserError(f"{path}: does not exist; {missing}")
    data = read_file(path, MOST_BYTES)
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise UserError(f"{path}: has the SHA-256 {found[:12]}… instead of {digest[:12]}…; {other}")
    return data
