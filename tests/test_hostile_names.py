"""Folders, runs and files with hostile names: no escape sequence and no markup of theirs reaches the terminal."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path

import pytest

from twoclocks.cli import main
from twoclocks.core.logging import log_to_stderr
from twoclocks.runs import Run

NAME = "x\x1b[31m\x1b]0;title\x07[bold]\n:smile:\u202e\x9b2J"
SHOWN = "x\\x1b[31m\\x1b]0;title\\x07[bold]\\n:smile:\\u202e\\x9b2J"


@pytest.fixture
def hostile(work: Path, tiny_gpt: Run) -> Path:
    shutil.copytree(tiny_gpt.path, work / "runs" / NAME)
    shutil.copytree(tiny_gpt.path, work / "runs" / "other")
    return work


@pytest.mark.parametrize(
    "words",
    [
        ["clocks", "runs"],
        ["clocks", f"runs/{NAME}"],
        ["verify", "runs"],
        ["report", f"runs/{NAME}"],
        ["dissect", f"runs/{NAME}", "--views", "raster"],
        ["sweep", "law.yaml", "--plan", "--out", NAME],
        ["sweep", "law.yaml", "--status", "--out", NAME],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.usefixtures("empty_figures")
def test_hostile_names_are_shown_escaped(words: list[str], hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (hostile / "law.yaml").write_text("base: demo\ngrid: {data.n: [16, 32]}\n", encoding="utf-8")
    assert main(words) == 0
    printed = capsys.readouterr()
    lines = [*printed.out.split("\n"), *printed.err.split("\n")]
    assert all(line.isprintable() for line in lines), lines
    if words[0] == "clocks":  # a table, which breaks long names over several lines
        assert "[bold]" in printed.out and "2J" in printed.out
    else:
        assert SHOWN in "".join("".join(lines).split())


def test_the_live_page_has_them_as_text(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "runs", "--once", "--out", "site"]) == 0
    assert capsys.readouterr().out == "site/index.html\n"
    written = {path: path.read_text(encoding="ascii", errors="strict") for path in (hostile / "site/data").iterdir()}
    assert any(json.dumps(SHOWN)[1:-1] in text for text in written.values())
    assert all(line.isprintable() for text in written.values() for line in text.split("\n"))
    pages = [path.read_text(encoding="utf-8") for path in (hostile / "site").glob("*.html")]
    assert len(pages) == 3 and not any("[bold]" in page for page in pages)  # names are data, never markup


def test_damage_is_named_in_one_line_per_problem(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (hostile / "runs" / NAME / "status.json").write_text("{}", encoding="utf-8")
    assert main(["verify", "runs"]) == 6
    assert f"damaged: runs/{SHOWN}: status.json" in capsys.readouterr().out
    assert main(["clocks", f"runs/{NAME}", "nowhere"]) in (0, 2)
    printed = capsys.readouterr().err.strip().split("\n")
    assert all(line.startswith("twoclocks: ") and line.isprintable() for line in printed), printed
    assert main(["verify", "runs", "--json"]) == 6
    assert json.loads(capsys.readouterr().out)


def test_log_lines_are_escaped_and_cut(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr()
    logging.getLogger("twoclocks").warning(f"{NAME}{'y' * 5000}")
    printed = capsys.readouterr().err
    assert printed.startswith(f"twoclocks: {SHOWN}") and printed.count("\n") == 1 and len(printed) <= 1001


def test_undecodable_names_are_shown(hostile: Path, capsys: pytest.CaptureFixture[str], tiny_gpt: Run) -> None:
    name = os.fsdecode(b"caf\xe9")
    shutil.copytree(tiny_gpt.path, hostile / "odd" / name)
    for words in (["clocks", "odd"], ["verify", "odd"]):
        assert main(words) == 0
        assert "caf\\udce9" in capsys.readouterr().out
