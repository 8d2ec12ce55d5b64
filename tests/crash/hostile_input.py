"""Hostile command lines and YAML files, drawn at random: each must be answered by one readable line, and fast."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from campaigns import Tally

from twoclocks.cli import main
from twoclocks.core.errors import UserError
from twoclocks.core.text import LINE_LENGTH
from twoclocks.report.listing import setting_rows
from twoclocks.rules import RULES
from twoclocks.runs import load_settings
from twoclocks.runs.execution import check_device
from twoclocks.runs.memory import check_memory

SECONDS = 20.0  # a case that takes longer counts as wrong; they take milliseconds, but machines are busy
BOMB = "{a: &a [x,x,x,x,x,x,x,x,x], " + ", ".join(
    f"{new}: &{new} [{','.join(9 * [f'*{old}'])}]" for old, new in itertools.pairwise("abcdefgh")
)
MERGE_BOMB = "{a: &a {k: 1}, " + ", ".join(
    f"{new}: &{new} {{<<: [*{old}, *{old}, *{old}]}}" for old, new in itertools.pairwise("abcdefghijklmnop")
)
NUMBERS = [
    *("0", "-1", "1e9", "1e12", "1e18", "1e30", "1e308", "1e400", "-1e400", ".nan", ".inf", "-.inf", "1e-400", "0.5"),
    *("9" * 25, "9" * 400, "9" * 4300, "9" * 5000, "18446744073709551616", "-9223372036854775809", "1_000", "0x10"),
    *("٣", "1:30", "+5", "-0", "065536", "65537", "1048577", "257"),
]
WORDS = [
    *("", " ", "~", "null", "true", "!!bool maybe", "!!map [1]", "!!seq {a: 1}", "!!int x", "!!float x", "!!null x"),
    *("!!set {a}", "!!binary aGk=", "!!timestamp x", "!!python/object/apply:os.system ['true']", "!x y", "!!str 5"),
    *(
        "&a [*a]",
        "&a {b: *a}",
        "{<<: &a {<<: *a}}",
        "*b",
        "[",
        "]",
        "{",
        "}",
        "{a",
        "a: b: c",
        "- a",
        "? [1]\n: 2",
        "@",
    ),
    *("%YAML 9.9\n---\na", "a\n---\nb", "---", "...", "\t", "'", '"', "`", "|", ">", "<<", "{5: 1}", "{null: 1}"),
    *("[" * 40 + "]" * 40, "[" * 3000, "{a: " * 3000, BOMB + "}", MERGE_BOMB + "}", "x" * 5000, "[[1, 2], {a: b}]"),
    *(
        '"\\0"',
        '"\\ud800"',
        '"\\e[31m"',
        '"\\u202e"',
        '"\\n\\r"',
        "\x1b[31m",
        "\x1b]0;x\x07",
        "\u202e",
        "\x85",
        "\ufeff",
    ),
    *(
        "[/]",
        "[bold]",
        ":smile:",
        "../x",
        "/dev/zero",
        "/dev/null",
        "a/../../b",
        "demo",
        "中",
        "τ",
        "\udcff",
        "{x}",
        "%s",
    ),
]
VALUES = [*NUMBERS, *WORDS]
PATHS = [
    *("nowhere", "a_file", "folder", "/dev/zero", "/dev/null", "fifo", "x\x1b[31m", "x\ny", "\u202e", "\udcff", "[/]"),
    *("a\0b", "x" * 300, "x/" * 3000, "~", "-", "loop", "", ".", "zero.yaml", "fifo.yaml", "loop.yaml", "own.yaml"),
]
FILES = [  # with a hostile value in the place of @
    "base: demo\n@: 1\n",
    "base: demo\ndescription: @\n",
    "base: @\n",
    "base: demo\nimports: @\n",
    "base: demo\nimports: [@]\n",
    "base: demo\nrule: @\n",
    "base: demo\nrule: {name: @}\n",
    "base: demo\ndata: {n: @}\n",
    "base: demo\n<<: @\n",
    "@\n",
]
SWEEPS = [
    "base: demo\ngrid: {data.n: [@, 16]}\n",
    "base: demo\ngrid: {data.n: {from: 2, to: @}}\n",
    "base: demo\ngrid: {data.n: {from: @, to: 16, count: 2}}\n",
    "base: demo\ngrid: {training.learning_rate: {from: 1e-5, to: @, count: 2, spacing: log}}\n",
    "base: demo\ngrid: {data.n: {from: 2, to: 16, step: @}}\n",
    "base: demo\ngrid: {@: [1, 2]}\n",
    "base: demo\ngrid: @\n",
    "base: demo\nset: {@: 1}\n",
    "base: demo\nseeds: {training: [0, @]}\n",
    "base: demo\nseeds: {@: 2}\n",
    "base: @\ngrid: {data.n: [16]}\n",
    "name: @\nbase: demo\n",
]
FITTING = {  # presets with which a component can be used
    **{"dit": "demo", "edm": "demo", "one_hot": "demo", "scalar": "demo", "sign": "demo", "gpt": "demo-gpt"},
    **{"autoregressive": "demo-gpt", "tokens": "demo-gpt", "gpt_full": "p2-md4-rhm", "masked": "p2-md4-rhm"},
    **{"unet1d": "p2-rhm-small", "d3pm": "p2-rhm-small", "mlp": "p2-kernel-small", "gaussian": "p2-kernel-small"},
    **{"fixed_noise": "p2-kernel-small", "ddpm": "demo"},
}
READERS = ("clocks", "fit", "forecast", "dissect", "report", "verify", "twins", "sweep", "run", "list")


def make_files(folder: Path) -> None:
    """What hostile paths may name; ``a_file`` as --out refuses every run before it begins."""
    (folder / "folder").mkdir()
    (folder / "a_file").write_text("mine", encoding="utf-8")
    for name in ("fifo", "fifo.yaml"):
        os.mkfifo(folder / name)
    for name in ("loop", "loop.yaml"):
        (folder / name).symlink_to(name)
    (folder / "zero.yaml").symlink_to("/dev/zero")
    (folder / "own.yaml").write_text("base: ../folder/../own.yaml\n", encoding="utf-8")
    (folder / "folder" / "own.yaml").write_text("base: ../folder/own.yaml\n", encoding="utf-8")


def cases(folder: Path, seed: int) -> Iterator[list[str]]:
    """Command lines without an end; the files that they name are written on the way."""
    draw = random.Random(seed)
    keys = sorted({row["setting"] for row in setting_rows()})  # such as "data.n" and "rule.side (latin)"

    def value() -> str:
        return draw.choice(VALUES)

    def mutated(text: str) -> str:
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(text) + 1)
            text = text[:at] + draw.choice([*"{}[]:,&*!|>'\"%@`#?-\\\n\t 0\x1b", "\ufeff", "", "<<: "]) + text[at + 1 :]
        return text

    def settings() -> list[str]:
        odd = [".".join("a" * draw.randrange(1, 1300)), draw.choice(WORDS), "training.", ".n"]
        key, _, component = draw.choice([*keys, draw.choice(odd)]).partition(" (")
        section, name = key.partition(".")[0], component.rstrip(")")
        preset = FITTING.get(name) or draw.choice(["demo", "demo-gpt", "p2-rhm-small"])
        whole = {"name": name, **(RULES.get(name).examples[0] if section == "rule" and name else {})}
        chosen = [f"--{section}={json.dumps(whole)}"] if name else []
        return ["run", preset, "--out", "a_file", *chosen, f"--{key}={value()}"]

    def options() -> list[str]:
        option = draw.choice(
            ["--rows", "--n", "--threshold", "--clock", "--workers", "--retries", "--executor", "--seconds"]
        )
        views = draw.choice(["--field.grid", "--basin.resamples", "--raster.windows", "--spectrum.band", "--views"])
        command = draw.choice([["twins", "x"], ["fit"], ["forecast"], ["sweep"], ["bench", "--parts"], ["dissect"]])
        return [*command, "nowhere", draw.choice([option, views]), value()]

    def file() -> list[str]:
        text = draw.choice(FILES).replace("@", value())
        (folder / "case.yaml").write_bytes(as_bytes(mutated(text) if draw.random() < 0.3 else text))
        return ["run", "case.yaml", "--out", "a_file"]

    def sweep() -> list[str]:
        text = draw.choice(SWEEPS).replace("@", value())
        (folder / "case.yaml").write_bytes(as_bytes(mutated(text) if draw.random() < 0.2 else text))
        return ["sweep", "case.yaml", "--plan"]

    def path() -> list[str]:
        command = draw.choice(READERS)
        second = [draw.choice(PATHS)] if command == "twins" or draw.random() < 0.1 else []
        return [command, draw.choice(PATHS), *second, *(["--out", draw.choice(PATHS)] if draw.random() < 0.1 else [])]

    def words() -> list[str]:
        return [draw.choice([*READERS, value()]), *(draw.choice([*VALUES, *PATHS, "--json", "--x"]) for _ in range(3))]

    kinds: list[Callable[[], list[str]]] = [settings, settings, settings, file, sweep, path, options, words]
    while True:
        yield draw.choice(kinds)()


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def answer(words: list[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as ending:  # of the parser
            assert isinstance(ending.code, int)
            code = ending.code
    return code, out.getvalue(), err.getvalue()


def problem_of(words: list[str]) -> str | None:
    """What is wrong with the answer to a command; None if nothing is."""
    begin = time.perf_counter()
    try:
        code, out, err = answer(words)
        if words[:1] == ["run"] and words[2:4] == ["--out", "a_file"]:
            check_estimate(words[1], words[4:])
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    lines = err.split("\n")
    if code not in (0, 2):
        return f"exit code {code}"
    said = [line for line in lines if not line.startswith("twoclocks: left out: ")]  # one per run, as documented
    if code == 2 and (len(said) != 2 or said[1] or not said[0].startswith("twoclocks: ")):
        return f"not one line: {err!r}"
    if not all(line.isprintable() and len(line) <= LINE_LENGTH for line in lines):
        return f"a line that is not printable, or too long: {err!r}"
    if not all(line.isprintable() for line in out.split("\n")):
        return f"output that is not printable: {out!r}"
    seconds = time.perf_counter() - begin
    return f"took {seconds:.0f} s" if seconds > SECONDS else None


def check_estimate(preset: str, overrides: list[str]) -> None:
    """The estimate of the memory, which a run makes before it builds anything."""
    with contextlib.suppress(UserError):
        settings = load_settings(preset, overrides)
        check_device(settings.training.device)
        check_memory(settings)


def hostile_inputs(folder: Path, count: int, seed: int = 0) -> Tally:
    """So many hostile command lines and files, in this process; ``wrong`` are those without a readable answer."""
    make_files(folder)
    tally = Tally("hostile command line or YAML file")
    with contextlib.chdir(folder):
        before = sorted(path.name for path in folder.iterdir())
        for words in itertools.islice(cases(folder, seed), count):
            problem = problem_of(words)
            tally.tried += 1
            tally.detected += problem is None
            tally.wrong += problem is not None
            if problem is not None:
                sys.stderr.write(f"{[word[:80] for word in words]}: {problem[:300]}\n")
        left = sorted(path.name for path in folder.iterdir() if path.name != "case.yaml")
        tally.wrong += left != before  # nothing is written
    return tally
