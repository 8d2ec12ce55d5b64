"""The documentation tells the truth: generated parts are fresh, examples run, links lead somewhere."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from twoclocks import cli, commands
from twoclocks.cli import parse_arguments
from twoclocks.clocks.settings import POLICIES
from twoclocks.core.config import build
from twoclocks.report.listing import list_rows
from twoclocks.rules import RULES
from twoclocks.runs import RunSettings, load_settings, run
from twoclocks.sweeps import read_plan
from twoclocks.testing import check_rule

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def code_blocks(page: Path) -> list[str]:
    found = re.findall(r"^( *)```python\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def test_generated_parts_are_up_to_date() -> None:
    if str(ROOT / "tools") not in sys.path:
        sys.path.append(str(ROOT / "tools"))  # as a script finds what lies beside it
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "tools" / "generate_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    texts = {page: page.read_text(encoding="utf-8") for page in module.pages()}
    for name in module.PARTS:
        assert any(f"<!-- generated: {name} -->" in text for text in texts.values()), name
    for page, text in texts.items():
        assert module.fill(text) == text, f"{page.name}: run make docs"


def test_readme_example_runs_in_eight_lines(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = code_blocks(ROOT / "README.md")
    assert len([line for line in code.split("\n") if line.strip()]) <= 8
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("1.0 0.0 (0.0, 0.00")


def test_the_rule_of_the_contributing_page_passes_its_contract_and_trains(tmp_path: Path) -> None:
    (code,) = code_blocks(ROOT / "CONTRIBUTING.md")
    name = "example_of_the_page"  # the page's own name may be taken by someone who followed it
    try:
        exec(compile(code.replace('"palindrome"', f'"{name}"'), "CONTRIBUTING.md", "exec", dont_inherit=True), {})
        check_rule(RULES.create(name, half=4))
        RULES.get(name).examples = ()  # a rule of another package need not have any
        assert name in [row["rule"] for row in list_rows("rules")] and list_rows("metrics")
        (command,) = re.findall(r"twoclocks run (demo-gpt) .*(--rule\.name palindrome --rule\.half 12)", CONTRIBUTING)
        words = command[1].replace("palindrome", name).split()
        fast = ["--training.steps", "20", "--evaluation.first", "5", "--evaluation.evaluations", "4"]
        done = run(load_settings(command[0], [*words, *fast]), tmp_path / "run")
        assert "pair_accuracy" in done.metrics()
    finally:
        RULES._members.pop(name, None)


CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_python_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of the page are one program."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile("\n".join(code_blocks(ROOT / "docs" / "python.md")), "python.md", "exec"), names)
    assert names["run"].metrics()["step"][-1] == 30
    assert names["decision"].phase == "rule" and names["decision"].step == 500
    assert (names["onset"].lower, names["onset"].upper) == (20, 40)
    assert names["law"].alpha == pytest.approx(1, abs=0.01)


def test_clocks_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    page = ROOT / "docs" / "clocks.md"
    exec(compile("\n".join(code_blocks(page)), "clocks.md", "exec"), names)
    assert (
        names["decision"].phase == "untrained" and not names["decision"].stop and (tmp_path / "monitor.json").exists()
    )
    text = page.read_text(encoding="utf-8")
    assert all(f"`{policy}`" in text for policy in POLICIES)
    assert len(read_plan(ROOT / "docs" / "examples" / "law.yaml").cells) == 16


def test_sweeps_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's file has as many cells as it says; its program runs, on a smaller grid."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    (spec,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "law.yaml").write_text(spec)
    assert f"list the {len(read_plan(tmp_path / 'law.yaml').cells)} cells" in page
    small = "set: {training.steps: 20, evaluation.first: 5, evaluation.evaluations: 4}"
    small = (
        spec.replace("set: {training.steps: 600}", small)
        .replace("[32, 64, 128]", "[32]")
        .replace("count: 3", "count: 2")
    )
    (tmp_path / "law.yaml").write_text(small.replace("training: 2, data: [0, 1]", "training: 1"))
    names: dict[str, Any] = {}
    exec(compile("\n".join(code_blocks(ROOT / "docs" / "sweeps.md")), "sweeps.md", "exec"), names)
    assert [row["state"] for row in names["rows"]] == ["finished", "finished"]
    assert (tmp_path / "sweeps" / "law" / "table.parquet").exists()
    for column in re.findall(r"`(tau_\w+_\w+)`", page):
        assert column in names["rows"][0], column


def test_every_exit_code_is_in_the_table() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8").partition("## Exit codes")[2]
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    named = {**vars(cli), **vars(commands)}
    assert listed == {0, *(value for name, value in named.items() if name.startswith("EXIT_"))}


def test_rules_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(compile("\n".join(code_blocks(ROOT / "docs" / "rules.md")), "rules.md", "exec"), names)
    assert "28200960" in capsys.readouterr().out
    assert names["first"].shape == names["second"].shape == (512, 6, 6)


def test_commands_of_the_rules_page_are_valid() -> None:
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for line in block.strip().split("\n"):
        words = shlex.split(line, comments=True)
        assert words[:2] == ["twoclocks", "run"]
        asked = parse_arguments(words[1:])
        load_settings(asked.preset, asked.overrides)


def test_what_the_rules_page_says_of_the_cyclic_generators() -> None:
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    for name, settings in (
        *(("latin_cyclic", {"side": side}) for side in (4, 5, 6)),
        *(("sudoku_cyclic", {"block_rows": 2, "block_cols": columns}) for columns in (2, 3)),
    ):
        rule = RULES.create(name, **settings)
        assert f"| {rule.support():,} | {rule.count():,} |" in page
    uniform, cyclic = RULES.create("latin", side=6), RULES.create("latin_cyclic", side=6)
    assert round(cyclic.copy_chance(9) / uniform.copy_chance(9)) == 157


def test_oracles_page_runs_and_its_table_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs" / "oracles.md"
    names: dict[str, Any] = {}
    exec(compile("\n".join(code_blocks(page)), "oracles.md", "exec"), names)
    assert names["highest"] == {"parity": 5, "exact_k": 1}
    printed = capsys.readouterr().out
    for row in re.findall(
        r"^\| (\d\.\d) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", page.read_text(encoding="utf-8"), re.M
    ):
        (line,) = [line for line in printed.split("\n") if line.startswith(f"{row[0]} [")]
        assert re.findall(r"([\d.]+) ±", line) == list(row[1:])
    assert "[0.0, 0.0, 0.0, 0.0, 0.0, 1.0," in printed and "[0.0, 0.96, " in printed


def test_laboratory_page_runs_and_says_what_it_prints() -> None:
    page = ROOT / "docs" / "laboratory.md"
    names: dict[str, Any] = {}
    exec(compile("\n".join(code_blocks(page)), "laboratory.md", "exec"), names)
    assert 1_500 < names["descent"].gap_onset(10.0, 0.1) < 1_900  # the page says 1,700
    assert 64 / (2 * 10 * names["local"].value) == pytest.approx(540_000, rel=0.1)
    lines = re.findall(r"^twoclocks run .*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    yours = [line for line in lines if "--rule.path" in line]  # a file of the reader's
    assert len(lines) >= 8 and len(yours) == 1
    for line in set(lines) - set(yours):
        words = shlex.split(line, comments=True)
        asked = parse_arguments(words[1:])
        load_settings(asked.preset, asked.overrides)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.json")), ids=lambda path: path.name)
def test_results_say_where_they_come_from(path: Path) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    assert {"command", "commit", "versions", "machine"} < result.keys()
    assert result["commit"] and re.fullmatch(r"[0-9a-f]{40}", result["commit"]), "measured on a clean commit"


def test_the_demo_trains_in_less_than_five_minutes_on_two_cores() -> None:
    result = json.loads((ROOT / "results" / "demo_time.json").read_text(encoding="utf-8"))
    assert result["machine"]["threads"] == 2 and sum(run["seconds"] for run in result["runs"]) < 300


def test_the_demo_opens_the_window_for_every_recorded_seed() -> None:
    result = json.loads((ROOT / "results" / "demo_seeds.json").read_text(encoding="utf-8"))
    assert result["seeds"] >= 5 and set(result["open"].values()) == {result["seeds"]}
    for row in result["runs"]:  # the presets are still the ones that were measured, seeds and threads apart
        seeds = {"training": {"seed": row["seed"], "threads": 2}, "data": {"seed": row["seed"]}}
        kept = row["settings"]["evaluation"]["keep_samples"]  # what is stored does not change what is measured
        settings = load_settings(row["name"], {**seeds, "evaluation": {"seed": row["seed"], "keep_samples": kept}})
        assert build(RunSettings, row["settings"]) == settings, row["name"]
    assert all(run["copy_chance"] < 0.05 and run["tau_mem"]["status"] == "observed" for run in result["runs"])
