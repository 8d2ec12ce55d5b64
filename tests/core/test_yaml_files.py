"""Hostile YAML: reading it takes bounded time and memory, and an error is one line with the file and the place."""

from __future__ import annotations

import itertools
import os
import socket
import time
from pathlib import Path

import pytest

from twoclocks.core.errors import UserError
from twoclocks.core.plugins import import_file
from twoclocks.core.reading import read_file
from twoclocks.core.yaml_files import MOST_BYTES, parse_yaml, read_yaml


def bomb(levels: int, wide: str = "[{0},{0},{0},{0},{0},{0},{0},{0},{0}]") -> str:
    """A few hundred bytes of aliases to aliases that stand for 9^levels values."""
    names = [f"a{level}" for level in range(levels)]
    lines = [f"{new}: &{new} {wide.format(f'*{old}')}" for old, new in itertools.pairwise(names)]
    return "\n".join(["a0: &a0 {k: lol}", *lines, f"description: *{names[-1]}"])


CHAIN = "a0: &a0 [1]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 1000))
HOSTILE = {  # what it is: (text, part of the message)
    "billion laughs": (bomb(11), "values, those of aliases included"),
    "merged laughs": (bomb(30, "{{<<: [{0}, {0}]}}"), "values, those of aliases included"),
    "long text, many times": (f"a: &a {'x' * 10**5}\nb: [{','.join(['*a'] * 1000)}]", "characters, those of aliases"),
    "aliases of aliases": (CHAIN, "inside of each other"),
    "list in itself": ("a: &a [*a]", "refers to itself"),
    "mapping in itself": ("a: &a {b: *a}", "refers to itself"),
    "merged into itself": ("a: &a {<<: *a}", "refers to itself"),
    "deep": ("[" * 3_000, "inside of each other"),
    "deep blocks": ("".join(f"{' ' * i}a:\n" for i in range(500)), "inside of each other"),
    "many values": ("[" + "1," * 20_000 + "1]", "values"),
    "many characters": ("x" * (MOST_BYTES + 1), "characters"),
    "bool": ("!!bool maybe", "'maybe' is not of the type bool"),
    "int": ("!!int x", "'x' is not of the type int"),
    "float": ("!!float x", "'x' is not of the type float"),
    "list as a mapping": ("!!map [1]", "the type '!!map' does not fit"),
    "mapping as a list": ("!!seq {a: 1}", "the type '!!seq' does not fit"),
    "set": ("!!set {a}", "the type '!!set' does not fit"),
    "timestamp": ("!!timestamp x", "the type '!!timestamp' does not fit"),
    "object": ("!!python/object/apply:os.system [x]", "does not fit"),
    "list as a key": ("? [1]\n: 2", "as a key"),
    "repeated key": ("a: 1\nb: 2\na: 3", "the key 'a' appears twice"),
    "NUL": ('"a\\0b"', "'a\\x00b' has a character that no text can have"),
    "lone surrogate": ('"\\ud800"', "'\\ud800' has a character that no text can have"),
    "escape in an anchor": ("*x\x1b", "character that YAML does not allow"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_yaml_is_refused_at_once(case: str) -> None:
    text, expected = HOSTILE[case]
    begin = time.process_time()
    with pytest.raises(UserError) as caught:
        parse_yaml(text, source="file.yaml")
    message = str(caught.value)
    assert message.startswith("file.yaml:") and expected in message and message.isprintable() and len(message) < 300
    assert time.process_time() - begin < 8  # below 1 s on an idle machine


def test_aliases_and_merge_keys_still_work() -> None:
    text = "x: {y: {a: &a {n: 1, m: 1}}}\nb: &b {<<: *a, n: 2}\nc: {<<: [*b, {m: 5}], k: *a}\n<<: {z: 0}"
    base = {"n": 1, "m": 1}
    mixed = {"n": 2, "m": 1}
    assert parse_yaml(text, "x") == {"x": {"y": {"a": base}}, "b": mixed, "c": {**mixed, "k": base}, "z": 0}


def test_repeated_keys_are_found_in_linear_time() -> None:
    def seconds(count: int) -> float:
        text = "{" + ",".join(f"k{i}: 1" for i in range(count)) + "}"
        begin = time.process_time()
        assert len(parse_yaml(text, "x")) == count
        return time.process_time() - begin

    def least(count: int) -> float:
        """A machine that does something else meanwhile makes single measurements longer."""
        return min(seconds(count) for _ in range(3))

    seconds(100)
    assert least(8_000) < 30 * least(1_000)  # 8 times as many keys; 64 times where it is quadratic


@pytest.mark.parametrize("kind", ["fifo", "device", "socket", "folder", "NUL", "loop", "large"])
def test_only_regular_files_are_read_and_nothing_blocks(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("a\0.yaml" if kind == "NUL" else "a.yaml")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "large":
        with path.open("wb") as stream:
            stream.truncate(1 << 40)  # without a block on the disk
    code, text = (path.with_suffix(end) for end in (".py", ".txt"))
    if kind not in ("NUL", "large"):
        code.symlink_to(path)
        text.symlink_to(path)
    elif kind == "large":
        code.hardlink_to(path)
        text.hardlink_to(path)
    for read in (
        lambda: read_yaml(path),
        lambda: import_file(code),
        lambda: read_file(text, 1 << 30),
    ):
        with pytest.raises(UserError) as caught:
            read()
        assert str(caught.value).isprintable()
        assert ("bytes; use a file of at most" if kind == "large" else "cannot be read") in str(caught.value)


def test_links_to_regular_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("base: demo", encoding="utf-8")
    (tmp_path / "b.yaml").symlink_to("a.yaml")
    assert read_yaml(tmp_path / "b.yaml") == {"base": "demo"}
