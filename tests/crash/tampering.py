"""Damage to files of a folder: bits, pages, lines, other files in their place, forged documents, odd kinds of files."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from campaigns import delete, flip_a_bit, truncate, zero_a_page

from twoclocks.store.checksums import START, encode_document, encode_line
from twoclocks.store.files import PARTIAL

Tamper = Callable[[Path, random.Random], None]  # of one file

ODD_VALUES: Sequence[Any] = (
    *(None, True, 0, -1, 3, 10**30, 1e308, "", "finished", "x" * 3000, "\x1b[31m", [], [1], {}, {"a": 1}, "../../x"),
    [[[[[[[]]]]]]],
)


def files_in(folder: Path) -> list[Path]:
    """All regular files below a folder that hold something, in order."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path for path in found if path.stat().st_size)


def duplicate_lines(path: Path, generator: random.Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    at = generator.randrange(len(lines))
    path.write_bytes(b"".join([*lines[: at + 1], *lines[generator.randrange(at + 1) : at + 1], *lines[at + 1 :]]))


def reorder_lines(path: Path, generator: random.Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    generator.shuffle(lines)
    path.write_bytes(b"".join(lines))


def forge_document(path: Path, generator: random.Random) -> None:
    """Another value with a valid checksum: a changed, missing or additional entry at any depth, or another object."""
    if path.suffix == ".jsonl":
        forge_lines(path, generator)
        return
    if path.suffix != ".json":
        flip_a_bit(path, generator)
        return
    value = json.loads(path.read_bytes())
    value.pop("sha256", None)
    if generator.random() < 0.1:
        value = generator.choice([{}, {"step": 1}, {"status": "finished"}, {"format": 3}, {"format": "3", "origin": 5}])
    else:
        forge_entry(value, generator)
    path.write_bytes(encode_document(value))


def forge_entry(value: dict[str, Any], generator: random.Random) -> None:
    """Change, remove or add one entry of a mapping, or of a mapping inside it."""
    keys = sorted(value) or ["unknown"]
    value.setdefault(keys[0], 0)
    inside = [key for key in keys if isinstance(value[key], dict) and value[key]]
    if inside and generator.random() < 0.5:
        forge_entry(value[generator.choice(inside)], generator)
        return
    key = generator.choice(keys)
    way = generator.random()
    if way < 0.3:
        del value[key]
    elif way < 0.35:
        value["unknown"] = generator.choice(ODD_VALUES)
    else:
        value[key] = generator.choice(ODD_VALUES)


def forge_lines(path: Path, generator: random.Random) -> None:
    """One row with another entry, and all links from there on as if it had been written so."""
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    link = START  # wrong for the first row of a run, which begins with its settings: found below
    manifest = path.parent / "manifest.json"
    if manifest.is_file():
        link = json.loads(manifest.read_bytes()).get("origin", START)
    forge_entry(generator.choice(rows), generator)
    data = b""
    for row in rows:
        row.pop("link", None)
        line, link = encode_line(row, str(link))  # an origin may have been forged before
        data += line
    path.write_bytes(data)


def make_fifo(path: Path, generator: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def make_socket(path: Path, generator: random.Random) -> None:
    path.unlink()
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def make_folder(path: Path, generator: random.Random) -> None:
    path.unlink()
    path.mkdir()
    if generator.random() < 0.5:
        (path / "inside").write_bytes(b"something")


def make_unreadable(path: Path, generator: random.Random) -> None:
    path.chmod(0o000)


def shift_times(path: Path, generator: random.Random) -> None:
    """Times of years ago or to come, as after a clock that jumped."""
    offset = generator.choice([-1, 1]) * 10 ** generator.uniform(0, 8.5)
    there = path.stat()
    os.utime(path, (max(0.0, there.st_atime + offset), max(0.0, there.st_mtime + offset)))


ONE_FILE: dict[str, Tamper] = {
    "bit flipped": flip_a_bit,
    "file truncated": truncate,
    "page zeroed": zero_a_page,
    "file deleted": delete,
    "lines duplicated": duplicate_lines,
    "lines reordered": reorder_lines,
    "document forged": forge_document,
    "FIFO in place of a file": make_fifo,
    "socket in place of a file": make_socket,
    "folder in place of a file": make_folder,
    "unreadable file": make_unreadable,
    "file times changed": shift_times,
}


def swap(folder: Path, generator: random.Random) -> str:
    """Two files of the folder change places; one of the same kind is likelier."""
    first = generator.choice(files_in(folder))
    alike = [path for path in files_in(folder) if path != first and path.suffix == first.suffix]
    second = generator.choice(alike or [path for path in files_in(folder) if path != first])
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    return f"{first.relative_to(folder)} and {second.relative_to(folder)}"


def replace_with_other(folder: Path, others: Sequence[Path], generator: random.Random) -> str:
    """A file of another run takes the place of the one with its name."""
    other = generator.choice([other for other in others if other != folder])
    names = [path.relative_to(other) for path in files_in(other) if not path.name.endswith(PARTIAL)]
    name = generator.choice([name for name in names if name.name != "lock"])
    (folder / name).parent.mkdir(exist_ok=True)
    shutil.copyfile(other / name, folder / name)
    return f"{name} of {other.name}"


def link_outside(folder: Path, outside: Path, generator: random.Random, hard: bool) -> str:
    """A file, or with symbolic links a folder, is replaced by a link to a copy outside, which nobody may change."""
    victim = generator.choice(files_in(folder))
    if not hard and victim.parent != folder and generator.random() < 0.3:
        victim = victim.parent
    target = outside / f"{len(list(outside.iterdir()))}-{victim.name}"
    if victim.is_dir():
        shutil.copytree(victim, target, symlinks=True)
        shutil.rmtree(victim)
    else:
        shutil.copyfile(victim, target)
        victim.unlink()
    if hard:
        os.link(target, victim)
    else:
        victim.symlink_to(target if generator.random() < 0.9 else outside / "nothing-here")
    return str(victim.relative_to(folder))


def tamper(kind: str, folder: Path, outside: Path, others: Sequence[Path], generator: random.Random) -> str:
    """Damage of a kind to a random file of the folder; says to which."""
    if kind == "files swapped":
        return swap(folder, generator)
    if kind == "file of another run":
        return replace_with_other(folder, others, generator)
    if kind in ("symbolic link to a file outside", "hard link to a file outside"):
        return link_outside(folder, outside, generator, hard=kind.startswith("hard"))
    candidates = files_in(folder)
    if "lines" in kind:
        candidates = [path for path in candidates if path.suffix in (".jsonl", ".json")]
    if kind == "document forged":
        candidates = [path for path in candidates if path.suffix in (".jsonl", ".json")]
    victim = generator.choice(candidates)
    ONE_FILE[kind](victim, generator)
    return str(victim.relative_to(folder))


KINDS = (
    *ONE_FILE,
    "files swapped",
    "file of another run",
    "symbolic link to a file outside",
    "hard link to a file outside",
)
