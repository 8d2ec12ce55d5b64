"""The command line as a person uses it: results, machine-readable output, and every kind of bad input."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from twoclocks.cli import LISTS, main, parse_arguments
from twoclocks.runs import Experiment, Run, load_settings

FAST = [
    *("--training.steps", "40", "--training.batch", "8", "--evaluation.samples", "200", "--evaluation.first", "5"),
    *("--evaluation.evaluations", "4", "--evaluation.loss_rows", "16", "--model.width", "16", "--model.depth", "1"),
]

BAD_INPUT = {  # what is wrong: (words, what the line must contain)
    "unknown key": (["--training.learning_rat", "1e-3"], ["training.learning_rat", "did you mean 'learning_rate'"]),
    "unknown section": (["--trainin.steps", "5"], ["trainin", "did you mean 'training'"]),
    "unknown component": (["--rule.name", "party"], ["rule.name", "'party'", "did you mean 'parity'"]),
    "number as text": (["--training.learning_rate", "fast"], ["training.learning_rate", "'fast'", "use a float"]),
    "quoted number": (["--data.n", "'24'"], ["data.n", "'24'", "without quotes"]),
    "fraction for a count": (["--data.n", "24.5"], ["data.n", "24.5", "integer"]),
    "learning rate zero": (["--training.learning_rate", "0"], ["training.learning_rate", "0", "above 0"]),
    "learning rate negative": (["--training.learning_rate", "-1e-3"], ["training.learning_rate", "-0.001", "above 0"]),
    "learning rate nan": (["--training.learning_rate", ".nan"], ["training.learning_rate", "nan", "finite"]),
    "group does not divide": (["--rule.group", "5"], ["rule.group", "5", "divide length = 24"]),
    "n beyond the valid set": (["--data.n", "5000"], ["data.n", "5000", "4096 samples"]),
    "n below two": (["--data.n", "1"], ["data.n", "1", "at least 2"]),
    "empty schedule": (["--evaluation.steps", "[]"], ["evaluation.steps", "[]", "at least one"]),
    "unsorted schedule": (["--evaluation.steps", "[20, 10]"], ["evaluation.steps", "[20, 10]", "sort"]),
    "schedule beyond the run": (
        ["--evaluation.steps", "[10, 9999999]"],
        ["evaluation.steps", "9999999", "training.steps"],
    ),
    "threshold one": (["--clocks.rule_threshold", "1"], ["clocks.rule_threshold", "1", "below 1"]),
    "threshold zero": (["--clocks.memory_threshold", "0"], ["clocks.memory_threshold", "0", "above 0"]),
    "too few samples": (["--evaluation.samples", "50"], ["evaluation.samples", "50", "use at least 109"]),
    "threshold at chance": (["--data.n", "1000"], ["clocks.memory_threshold", "chance 0.24"]),
    "more than the memory": (["--model.width", "400000"], ["memory", "model.width"]),
    "batch beyond reason": (["--training.batch", "1e30"], ["training.batch", "at most"]),
    "threads beyond reason": (["--training.threads", "100000"], ["training.threads", "100000", "at most 256"]),
    "schedule that does not fall": (["--objective.rho", "0.001"], ["objective.rho", "0.001", "noise levels"]),
    "noise beyond reason": (["--objective.sigma_max", "1e300"], ["objective.sigma_max", "at most"]),
    "name is a number": (["--rule.name", "5"], ["rule.name", "5", "parity"]),
    "name is nothing": (["--rule.name", "null"], ["rule.name", "None", "parity"]),
    "key is a number": (["--data", "{5: 1}"], ["data.5", "unknown"]),
    "schedule ends early": (["--evaluation.steps", "[10, 20]"], ["evaluation.steps", "end with training.steps"]),
    "fewer evaluations than sustain": (["--evaluation.evaluations", "2"], ["evaluation.steps", "sustain = 3"]),
    "memory threshold near chance": (["--data.n", "400"], ["clocks.memory_threshold", "0.098", "use at least 2404"]),
    "rule threshold below chance": (
        ["--rule.group", "24", "--clocks.rule_threshold", "0.3"],
        ["clocks.rule_threshold", "0.3", "chance 0.5"],
    ),
    "no quantization": (["--evaluation.quantization", "[]"], ["evaluation.quantization", "[]", "at least one"]),
    "one step, not a list": (["--evaluation.steps", "5"], ["evaluation.steps", "5", "list"]),
    "no such device": (
        ["--training.device", "cuda:9"],
        ["training.device", "'cuda:9'", "is not available; available: cpu"],
    ),
    "nonsense device": (["--training.device", "toaster"], ["training.device", "'toaster'", "cpu"]),
    "name is a path": (["--name", "../escape"], ["name", "'../escape'", "not a path"]),
    "model of another kind": (["--model.name", "gpt"], ["model.name", "'gpt'", "denoise images", "dit"]),
    "encoding of another kind": (["--encoding", "tokens"], ["encoding.name", "'tokens'", "sign"]),
    "section given a value": (["--training", "5"], ["training", "5", "section"]),
    "value missing": (["--data.n"], ["data.n", "value"]),
    "stray word": (["24"], ["'24'", "--data.n 512"]),
    "width and heads": (["--model.width", "50", "--model.heads", "4"], ["model.width", "50", "multiple"]),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line_exit_two_and_nothing_written(
    case: str, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, expected = BAD_INPUT[case]
    for command in (["run", "demo", "--out", "out"], ["run", "demo"]):
        assert main([*command, *words]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and len(printed.err.strip().split("\n")) == 1, printed.err
        assert all(word in printed.err for word in expected), printed.err
        assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "dmo"], ["preset", "'dmo'", "did you mean 'demo'"]),
        (["run", "missing.yaml"], ["missing.yaml", "cannot be read"]),
        (["run", "broken.yaml"], ["broken.yaml", "line 1", "not valid YAML"]),
        (["run", "twice.yaml"], ["twice.yaml", "'n' appears twice"]),
        (["run", "list.yaml"], ["list.yaml", "not settings"]),
        (["run", "empty.yaml"], ["rule", "no default"]),
        (["clocks", "nowhere"], ["nowhere", "not a run directory"]),
        (["report", "nowhere"], ["nowhere", "not a run directory"]),
        (["clocks", "nowhere", "--jso"], ["--jso", "not an option"]),
    ],
)
def test_bad_files_and_folders(
    words: list[str], expected: list[str], work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work / "broken.yaml").write_text("data: {n: 3")
    (work / "twice.yaml").write_text("data: {n: 3, n: 4}")
    (work / "list.yaml").write_text("- 1\n- 2\n")
    (work / "empty.yaml").write_text("{}")
    before = sorted(work.iterdir())
    assert main(words) == 2
    printed = capsys.readouterr()
    assert len(printed.err.strip().split("\n")) == 1 and all(word in printed.err for word in expected), printed.err
    assert sorted(work.iterdir()) == before


def test_places_that_cannot_be_written(work: Path, capsys: pytest.CaptureFixture[str], tiny_dit: Run) -> None:
    (work / "file").write_text("mine")
    for words in (
        ["run", "demo", *FAST, "--out", "file"],
        ["run", "demo", *FAST, "--out", "file/inside"],
        ["report", str(tiny_dit.path), "--out", "file/page.html"],
    ):
        assert main(words) == 2
        assert len(capsys.readouterr().err.strip().split("\n")) == 1
    assert [path.name for path in work.iterdir()] == ["file"]


def test_output_folder_with_another_run_is_refused_and_untouched(
    work: Path, tiny_dit: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in tiny_dit.path.rglob("*") if path.is_file()}
    for command in ("run demo", "demo"):
        assert main([*command.split(), "--out", str(tiny_dit.path)]) == 2
        printed = capsys.readouterr().err
        assert "already holds a run" in printed or "rule.length is 8 there and 24 here" in printed
    assert before == {path: path.read_bytes() for path in tiny_dit.path.rglob("*") if path.is_file()}


def test_run_then_clocks_then_report(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "demo", "--name", "mine", *FAST, "--objective.sampler_steps", "4", "--json"]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert result["path"] == "runs/mine" and result["verdict"] in ("open", "empty", "unknown")
    assert "step 40/40" in printed.err and "valid" in printed.err and "left" in printed.err
    assert main(["clocks", "runs/mine", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)[0]
    assert again["tau_rule"] == result["tau_rule"] and again["tau_mem"] == result["tau_mem"]
    assert main(["clocks", "runs", "--json"]) == 0  # a folder of runs
    assert json.loads(capsys.readouterr().out)[0]["last"]["step"] == 40
    assert main(["clocks", "runs/mine"]) == 0
    assert "τ_rule" in capsys.readouterr().out
    assert main(["report", "runs/mine", "--out", "page.html"]) == 0
    assert (work / "page.html").stat().st_size > 20_000


def test_demo_trains_both_models_and_prints_json(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", "here", "--json", *FAST]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [run["name"] for run in result["runs"]] == ["demo", "demo-gpt"]
    for run in result["runs"]:
        assert {"tau_rule", "tau_mem", "verdict", "copy_chance"} <= run.keys()
    assert (work / result["report"]).exists() and (work / "here" / "report.png").exists()


def test_demo_refuses_one_name_for_two_runs(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--name", "same", *FAST]) == 2
    assert "both runs" in capsys.readouterr().err and list(work.iterdir()) == []


def test_interruption_has_its_own_exit_code(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(self: object, *arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "train", interrupt)
    assert main(["run", "demo", *FAST]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert main(["clocks", "runs/demo"]) == 2
    assert "status: interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["no settings", "number", "utf8", "columns", "samples"])
def test_damaged_runs_get_a_clear_line(
    damage: str, work: Path, tiny_gpt: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(tiny_gpt.path, work / "run")
    metrics, manifest = work / "run" / "metrics.jsonl", work / "run" / "manifest.json"
    if damage == "no settings":
        manifest.write_text(json.dumps({k: v for k, v in json.loads(manifest.read_text()).items() if k != "settings"}))
    elif damage == "samples":
        (work / "run" / "samples" / "step-copy.safetensors").write_text("a stray file is not ours")
        (work / "run" / "samples" / "step-000000060.safetensors").write_bytes(b"damaged")
    else:
        line = {"number": b"5\n", "utf8": b"\xff\xfe\n", "columns": b'{"step": 99}\n'}[damage]
        metrics.write_bytes(metrics.read_bytes() + line)
    if damage == "samples":  # the page is written without them, and says so
        assert main(["report", "run", "--out", "page.html"]) == 0
        assert (work / "page.html").exists()
    else:
        assert main(["clocks", "run"]) == 2
    printed = capsys.readouterr().err
    assert len(printed.strip().split("\n")) == 1 and "run" in printed
    assert damage != "samples" or "step-000000060.safetensors: is damaged" in printed


def test_divergence_has_its_own_exit_code(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--training.learning_rate", "1e30", "--objective.sampler_steps", "4"]
    assert main(["run", "demo", *FAST, *words]) == 3
    printed = capsys.readouterr().err.strip().split("\n")
    assert "training.learning_rate" in printed[-1]


def test_a_preset_may_stand_anywhere() -> None:
    settings = ["--rule.name", "sudoku", "--json"]
    for place in (0, 2, 3):
        asked = parse_arguments(["run", *settings[:place], "demo-gpt", *settings[place:]])
        assert (asked.preset, asked.overrides, asked.json) == ("demo-gpt", {"rule": {"name": "sudoku"}}, True)
    asked = parse_arguments(["run", "--data.n=5"])
    assert asked.preset is None and asked.overrides == {"data": {"n": 5}}
    assert parse_arguments(["list", "rules"]).kind == "rules"


def test_runs_of_another_rule_are_called_after_it_and_lose_the_presets_description() -> None:
    sudoku = {"rule": {"name": "sudoku"}}
    assert load_settings("demo-gpt", sudoku).name == "demo-gpt-sudoku" and load_settings(None, sudoku).name == "sudoku"
    assert load_settings("demo-gpt", sudoku).description == "" and load_settings("demo-gpt").description
    assert load_settings("demo-gpt", {"rule.name": "sudoku", "data.n": 9}).data.n == 9
    assert load_settings("demo-gpt", {"rule": {"length": 30}}).name == "demo-gpt"
    assert load_settings("demo-gpt", {**sudoku, "name": "mine", "description": "so"}).description == "so"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "--rule.name", "latin"], "rule.side: it is missing"),
        (["run", "--rule.name", "exact_k"], "rule.length, rule.k: they are missing"),
        (["run", "--rule.name", "latin", "--rule.side", "0"], "rule.side: 0 is not allowed"),
        (["run", "--training.steps", "--data.n", "3"], "training.steps: its value is missing"),
        (
            ["run", "--encoding.zero_mean", "true"],
            "encoding.name: it is missing; name the encoding too",
        ),
        (["run", "--encoding", "scalar", "--encoding.zero_mean", "true"], "nothing can be set here"),
        (["run", "--rule.name", "sudoku", "--encoding", "sign"], "use scalar or one_hot"),
        (
            ["run", "demo-gpt", "--rule.name", "sudoku", "--encoding", "one_hot"],
            "use tokens, or the objective edm",
        ),
        (["run", "--rule.name", "latin", "--rule.side", "3", "--data.n", "13"], "only 12 samples to draw"),
        (["run", "--rule.name", "sudoku", "--data.part", "2000000"], "or part up to 1175039"),
    ],
)
def test_wrong_rules_and_encodings(
    words: list[str], expected: str, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    printed = capsys.readouterr().err
    assert expected in printed and len(printed.strip().split("\n")) == 1, printed
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("words", [["list"], ["list", "rule"], ["nonsense"], ["run", "demo", "--out"], ["clocks"]])
def test_wrong_usage_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(words)
    assert ending.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith("twoclocks: ") and len(printed.strip().split("\n")) == 1


@pytest.mark.parametrize("kind", LISTS)
def test_lists(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows and all(row.keys() == rows[0].keys() for row in rows)
    assert main(["list", kind]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help"], ["--version"], ["list", "nonsense"], ["demo", "--help"]]
)
def test_help_and_usage_come_from_a_fresh_process(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "twoclocks", *words], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if "nonsense" in words else 0)
