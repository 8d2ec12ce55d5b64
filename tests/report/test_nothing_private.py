"""What is written to be shared names neither the user, nor the machine, nor its folders and environment."""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from small_runs import SMALL_MODEL, TINY
from warm import WarmCommand

import twoclocks as tc
from twoclocks.core.config import flat
from twoclocks.report.together import law_chapter, phase_chapter
from twoclocks.runs import load_run, load_settings
from twoclocks.store.checksums import encode_document
from twoclocks.testing.runs import write_run

USER, SECRET, HOST = "xyz-secret-user", "s3cr3t-t0ken-value", "secret-host-name"
RULE = """
from dataclasses import dataclass
from twoclocks.rules.base import RULES
from twoclocks.rules.parity import Parity

@RULES.register("own_parity")
@dataclass(frozen=True, kw_only=True)
class OwnParity(Parity):
    examples = ()
"""
# Paths of imported files and of cells; host and process, which locks need.
KEPT = ("manifest.json", "status.json", "lock")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a user with runs, a sweep, twins, a fork and a monitor, and every page about them."""
    home = tmp_path_factory.mktemp(USER)
    (home / "own.py").write_text(RULE, encoding="utf-8")
    short = {**flat(TINY), **flat({"model": SMALL_MODEL}), "training.steps": 6, "evaluation.steps": [0, 3, 6]}
    words = [word for key, value in short.items() for word in (f"--{key}", str(value))]
    spec = "base: demo-gpt\nname: cells\ngrid: {data.seed: [0, 1]}\n"
    (home / "cells.yaml").write_text(spec, encoding="utf-8")
    for command in (
        f"run demo-gpt --out {home}/a --import {home}/own.py --rule.name own_parity --json",
        f"run demo-gpt --out {home}/b --import {home}/own.py --rule.name own_parity --data.part 1 --json",
        f"sweep {home}/cells.yaml --out {home}/cells --workers 1 --json",
    ):
        run_as_user(home, [*command.split(), *words])
    for command in (
        f"report {home}/cells --out {home}/together.html",
        f"dissect {home}/a --import {home}/own.py --views raster --json",
        f"twins {home}/a {home}/b --import {home}/own.py --json",
    ):
        run_as_user(home, command.split())
    monitor = tc.Monitor(np.eye(6), copies=tc.monitor.Distance(lambda a, b: np.zeros(len(a)), 1.0))
    monitor.observe(1, np.eye(6))
    monitor.save(home / "state.json")
    monitor.report(home / "page.html")
    for kind in ("png", "svg", "pdf"):
        monitor.gallery(home / f"copies.{kind}")
    return home


def run_as_user(home: Path, words: list[str]) -> None:
    named = {
        "USER": USER,
        "LOGNAME": USER,
        "HOME": str(home),
        "MY_API_KEY": SECRET,
        "HOSTNAME": HOST,
        "AWS_SECRET": SECRET,
    }
    command = WarmCommand(words, function="other_host:main", env={**os.environ, **named}, stderr=-1)
    _, error = command.communicate(timeout=300)
    assert command.returncode == 0, (words, error)


def texts_in(path: Path) -> list[bytes]:
    """A file's bytes, and what is compressed in them (PNG and PDF)."""
    data = path.read_bytes()
    found = [data]
    for place in re.finditer(rb"(?:IDAT|zTXt|iTXt|stream\r?\n)", data):
        try:
            found.append(zlib.decompressobj().decompress(data[place.end() :]))
        except zlib.error:
            continue
    return found


def test_pages_pictures_and_tables_name_no_person_and_no_machine(shared: Path) -> None:
    private = [USER, SECRET, HOST, str(Path(tc.__file__).parent), str(shared.parent)]
    pages = [path for path in shared.rglob("*") if path.suffix in {".html", ".png", ".svg", ".pdf"}]
    names = {path.name for path in pages}
    assert {"together.html", "a-why.html", "a-b-twins.html", "copies.png"} <= names
    for path in (*pages, shared / "state.json", *shared.rglob("*.jsonl"), *shared.rglob("sweep.json")):
        for word in private:
            assert not any(word.encode() in text for text in texts_in(path)), f"{word!r} in {path.relative_to(shared)}"


def test_a_page_names_runs_that_were_left_out_without_their_folders(tmp_path: Path) -> None:
    def written(name: str, n: int, origin: str = "") -> tc.Run:
        settings = load_settings("demo-gpt", {"rule.length": 30, "data.n": n, "evaluation.evaluations": 12})
        steps = np.array(settings.schedule, dtype=float)
        rising = steps / steps.max()
        run = write_run(
            tmp_path / USER / name, settings, {"sample_accuracy": rising, "sample_memorization": rising, "loss": steps}
        )
        if origin:
            fork = {**run.manifest, "forked_from": {"path": str(tmp_path / USER / origin), "step": 1}}
            (run.path / "manifest.json").write_bytes(encode_document(fork))
        return load_run(run.path)

    runs = [written("one", 16), written("two", 64), written("three", 256), written("fork", 64, origin="two")]
    laws, phases = law_chapter(runs), phase_chapter(runs)
    assert laws is not None and phases is not None
    shown = [*laws.left_out, *laws.refused, *phases.info.left_out]
    assert any("fork" in line for line in shown) and not any(USER in line or "/" in line for line in shown), shown


def test_runs_keep_no_environment_and_only_what_locks_need(shared: Path) -> None:
    for path in (path for path in shared.rglob("*") if path.is_file() and path.suffix not in {".yaml", ".py", ".html"}):
        data = path.read_bytes()
        assert SECRET.encode() not in data, path
        if path.name not in KEPT:
            assert USER.encode() not in data and HOST.encode() not in data, path.relative_to(shared)
