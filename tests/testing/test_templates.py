"""The templates as files outside the package: imported, held against their contracts, trained and listed."""

from __future__ import annotations

import json
import os
import py_compile
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from twoclocks import models, objectives
from twoclocks.analysis.twins import key_of as twins_key
from twoclocks.cli import main, parse_arguments
from twoclocks.core import plugins
from twoclocks.core.errors import UserError
from twoclocks.core.plugins import import_file
from twoclocks.data.encodings import ENCODINGS
from twoclocks.dissection import VIEWS
from twoclocks.dissection.cache import key_of
from twoclocks.dissection.subject import RunSubject
from twoclocks.evaluation import METRICS
from twoclocks.models import MODELS
from twoclocks.objectives import OBJECTIVES
from twoclocks.report.drawings import DRAWINGS
from twoclocks.report.listing import read_template, template_paths
from twoclocks.rules import RULES
from twoclocks.runs import Run, load_run, load_settings, run
from twoclocks.sweeps import EXECUTORS, read_plan, run_sweep
from twoclocks.testing import check_metric, check_model, check_objective, check_rule, check_view

REGISTRIES = (RULES, MODELS, OBJECTIVES, ENCODINGS, VIEWS, METRICS, DRAWINGS)
TINY = [
    *("--training.steps", "12", "--training.batch", "8", "--evaluation.samples", "200", "--evaluation.first", "3"),
    *("--evaluation.evaluations", "4", "--evaluation.loss_rows", "16", "--model.width", "16"),
]
SMALL_DIT = ["--model.depth", "1", "--objective.sampler_steps", "3"]
PALINDROME = ["--rule.name", "palindrome", "--rule.length", "16", "--data.n", "4"]


@pytest.fixture(autouse=True)
def registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test imports is forgotten afterwards, so that other tests see the package alone."""
    for registry in REGISTRIES:
        registry.names()  # the package's own members and plug-ins first
        monkeypatch.setattr(registry, "_members", dict(registry._members))
    monkeypatch.setattr(plugins, "_imported", {})
    monkeypatch.setattr(plugins, "_warned", set())
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("twoclocks_import_"):
            del sys.modules[name]


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process, which has imported nothing yet."""
    for registry in REGISTRIES:
        members = {name: cls for name, cls in registry._members.items() if cls.__module__.startswith("twoclocks.")}
        monkeypatch.setattr(registry, "_members", members)
    monkeypatch.setattr(plugins, "_imported", {})


def copied(name: str, folder: Path) -> str:
    shutil.copy(template_paths()[name], folder / f"my_{name}.py")
    return str(folder / f"my_{name}.py")


def test_every_kind_has_a_template(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(template_paths()) == {"rule", "model", "objective", "metric", "view"}
    assert main(["list", "templates", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(Path(row["path"]).is_file() and row["what it is"].endswith(".") for row in rows)
    assert main(["list", "templates", "rule"]) == 0
    assert capsys.readouterr().out == read_template("rule") == template_paths()["rule"].read_text(encoding="utf-8")
    assert main(["list", "templates", "ruel"]) == 2
    assert "did you mean 'rule'" in capsys.readouterr().err
    assert main(["list", "rules", "parity"]) == 2


@pytest.mark.parametrize(
    ("name", "registered"),
    [
        *(("rule", "palindrome"), ("model", "one_layer"), ("objective", "straight_flow"), ("view", "distinct")),
        ("metric", "constant"),
    ],
)
def test_templates_are_listed(name: str, registered: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", f"{name}s", "--json", "--import", copied(name, work)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert registered in [row.get(name, row.get("name")) for row in rows]


def test_rule_template_obeys_its_contract(tmp_path: Path) -> None:
    import_file(copied("rule", tmp_path))
    for settings in ({"length": 2}, {"length": 6}, {"length": 4, "alphabet": 3}):
        check_rule(RULES.create("palindrome", **settings))
    with pytest.raises(UserError, match=r"rule.length: 5 is not allowed; use an even number, for example 6"):
        RULES.create("palindrome", length=5)


def test_model_template_obeys_its_contract(tmp_path: Path) -> None:
    import_file(copied("model", tmp_path))
    check_model(MODELS.create("one_layer"), (1, 2, 4), 2, objectives.EDM())


def test_objective_template_obeys_its_contract(tmp_path: Path) -> None:
    import_file(copied("objective", tmp_path))
    model = models.create("dit", width=32, depth=1, heads=2)
    check_objective(OBJECTIVES.create("straight_flow", sampler_steps=5), model, (1, 2, 4), 2)


def test_metric_template_obeys_its_contract(tmp_path: Path) -> None:
    import_file(copied("metric", tmp_path))
    for rule in (RULES.create("parity", length=8, group=4), RULES.create("exact_k", length=8, k=2)):
        check_metric(METRICS.get("constant"), rule)
    settings = load_settings("demo", [*TINY, *SMALL_DIT])
    done = run(settings, tmp_path / "run")
    assert {"constant"} <= done.metrics().keys() and done.metric("constant").chance_cube == 2.0**-23


def test_view_template_obeys_its_contract(tmp_path: Path, tiny_gpt: Run, capsys: pytest.CaptureFixture[str]) -> None:
    file = copied("view", tmp_path)
    import_file(file)
    check_view(VIEWS.create("distinct"), tiny_gpt)
    shutil.copytree(tiny_gpt.path, tmp_path / "run")
    words = ["dissect", str(tmp_path / "run"), "--import", file, "--views", "distinct", "--distinct.most", "50"]
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["views"]["distinct"]["steps"] == [0, 5, 20, 40, 60]
    page = Path(printed["report"]).read_text(encoding="utf-8")
    assert "different from each other" in page and "Different samples" in page  # the sentence, and the drawing


def test_all_templates_train_together_through_the_command(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imports = [word for name in ("rule", "model", "objective") for word in ("--import", copied(name, work))]
    chosen = ["--model.name", "one_layer", "--objective.name", "straight_flow", "--objective.sampler_steps", "3"]
    assert main(["run", "demo", *imports, *PALINDROME, *chosen, *TINY, "--out", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "One layer 16"
    stored = load_run("run").manifest["imports"]
    assert [Path(record["path"]).name for record in stored] == ["my_rule.py", "my_model.py", "my_objective.py"]
    assert main(["verify", "run"]) == 0


def test_a_run_directory_never_imports_what_it_names(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copied("rule", work)
    assert main(["run", "demo", "--import", file, *PALINDROME, *TINY, *SMALL_DIT, "--out", "run"]) == 0
    forget(monkeypatch)
    capsys.readouterr()
    with Path(file).open("a", encoding="utf-8") as stream:
        stream.write("\nraise SystemExit('this file was executed')\n")
    assert main(["clocks", "run"]) == 0  # needs no rule
    assert "palindrome" not in RULES.names()
    for words in (["report", "run"], ["fit", "run"], ["run", "demo", *TINY, "--out", "run"]):
        assert main(words) == 2
        line = capsys.readouterr().err
        assert f"was made with files that are not imported now; check them and add --import {Path(file).name}" in line
        assert len(line.strip().split("\n")) == 1
    with pytest.raises(UserError, match=r"--import .*my_rule\.py"):
        _ = load_run("run").settings
    assert not plugins.imported_files()


def test_a_changed_import_is_a_warning_and_a_moved_one_is_not(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(copied("rule", work))
    assert main(["run", "demo", "--import", str(file), *PALINDROME, *TINY, *SMALL_DIT, "--out", "run"]) == 0
    forget(monkeypatch)
    (work / "elsewhere").mkdir()
    moved = file.rename(work / "elsewhere" / "renamed.py")
    capsys.readouterr()
    assert main(["report", "run", "--import", str(moved)]) == 0
    assert capsys.readouterr().err == ""
    forget(monkeypatch)
    file.write_text(moved.read_text(encoding="utf-8") + "\n# another version\n", encoding="utf-8")
    assert main(["report", "run", "--import", str(file)]) == 0
    (line,) = capsys.readouterr().err.strip().split("\n")
    assert "my_rule.py: is not the version that the run was made with" in line


def test_yaml_files_name_imports_beside_them(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "mine").mkdir()
    copied("rule", work / "mine")
    (work / "mine" / "base.yaml").write_text("base: demo\nimports: [my_rule.py]\ndata: {n: 4}\n", encoding="utf-8")
    preset = "base: base.yaml\nrule: {name: palindrome, length: 16}\n"
    (work / "mine" / "preset.yaml").write_text(preset, encoding="utf-8")
    assert load_settings("mine/preset.yaml").rule.count() == 256
    forget(monkeypatch)
    spec = "base: base.yaml\nimports: [my_rule.py]\nset: {rule.name: palindrome}\ngrid: {rule.length: [16, 20]}\n"
    (work / "mine" / "sweep.yaml").write_text(spec, encoding="utf-8")
    assert [cell.settings.rule.count() for cell in read_plan("mine/sweep.yaml").cells] == [256, 1024]


def write_sweep(folder: Path) -> None:
    (folder / "sweep.yaml").write_text(
        "imports: [my_rule.py]\n"
        "set: {rule: {name: palindrome, length: 16}, data.n: 4, training: {steps: 12, batch: 8},\n"
        "  model: {width: 16, depth: 1, heads: 2}, objective.sampler_steps: 3,\n"
        "  evaluation: {samples: 200, first: 3, evaluations: 4, loss_rows: 16}}\n"
        "seeds: {training: 2}\n",
        encoding="utf-8",
    )


def edit(file: Path | str, line: str = "# another version") -> None:
    with Path(file).open("a", encoding="utf-8") as stream:
        stream.write(f"\n{line}\n")


def test_workers_of_a_sweep_import_the_same_files(work: Path) -> None:
    copied("rule", work)
    write_sweep(work)
    sweep = run_sweep(read_plan("sweep.yaml"), "out", EXECUTORS.create("local", workers=1))
    assert sweep.counts() == {"finished": 2}, sweep.status()
    cells = [load_run(path) for path in sorted((work / "out" / "cells").iterdir()) if path.is_dir()]
    assert all(cell.manifest["imports"][0]["path"] == "my_rule.py" for cell in cells)


def test_a_sweep_never_trains_with_two_versions_of_a_file(work: Path) -> None:
    file = copied("rule", work)
    write_sweep(work)
    plan = read_plan("sweep.yaml")
    edit(file)  # after the coordinator imported it, before the workers do
    sweep = run_sweep(plan, "out", EXECUTORS.create("local", workers=1), retries=0)
    assert sweep.counts() == {"failed": 2}
    for reason in sweep.failures.values():
        assert reason.startswith(f"imports: {file}: is another version than at the start (SHA-256 "), reason
    assert not any((work / "out" / "cells").iterdir())


def test_cells_made_with_another_version_are_a_warning(
    work: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = copied("rule", work)
    write_sweep(work)
    plan = read_plan("sweep.yaml")
    run_sweep(plan, "out", EXECUTORS.create("local", workers=2))
    again = run_sweep(plan, "out", EXECUTORS.create("local", workers=2))
    assert not again.attempts and not caplog.messages
    forget(monkeypatch)
    edit(file)
    again = run_sweep(read_plan("sweep.yaml"), "out", EXECUTORS.create("local", workers=2))
    assert again.counts() == {"finished": 2} and not again.attempts  # as for a single run: used, with a warning
    (line,) = caplog.messages
    assert line.startswith(f"cell {plan.cells[0].key} and 1 more: made with another version of my_rule.py"), line


def test_one_file_by_two_paths_is_imported_once(work: Path) -> None:
    file = Path(copied("rule", work))
    (work / "inside").mkdir()
    (work / "inside" / "same.py").symlink_to(file)
    (work / "inside" / "preset.yaml").write_text("base: demo\nimports: [../my_rule.py, same.py]\n", encoding="utf-8")
    import_file("my_rule.py")
    load_settings("inside/preset.yaml")
    shutil.copy(file, work / "inside" / "copy.py")  # the same content
    import_file("inside/copy.py")
    assert [record["path"] for record in plugins.imported_files()] == [str(file)]


def test_the_bytes_of_the_stored_digest_are_run_and_not_older_bytecode(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python compares time and size alone before it uses bytecode; an edit within one second may change neither."""
    file = Path(copied("rule", work))
    import_file(file)
    py_compile.compile(str(file))  # as Python does at an import, unless it is told not to
    forget(monkeypatch)
    before, times = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(before.replace('"palindrome"', '"palindramo"'), encoding="utf-8")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    import_file(file)
    assert "palindramo" in RULES.names() and "palindrome" not in RULES.names()


@pytest.mark.usefixtures("empty_figures")
def test_measurements_are_made_again_after_an_import_changed(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copied("rule", work)
    assert main(["run", "demo", "--import", file, *PALINDROME, *TINY, *SMALL_DIT, "--out", "run"]) == 0

    def measured() -> tuple[int, int]:
        capsys.readouterr()
        assert main(["dissect", "run", "--import", file, "--views", "raster"]) == 0
        found = re.search(r"(\d+) new measurements, (\d+) from earlier", capsys.readouterr().out)
        assert found is not None
        return int(found[1]), int(found[2])

    new, known = measured()
    assert new > 0 and known == 0 and measured() == (0, new)
    forget(monkeypatch)
    edit(file)
    assert measured() == (new, 0) and measured() == (0, new)


def test_measurements_of_twins_depend_on_imports(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = copied("rule", work)
    import_file(file)
    words = [*PALINDROME, *TINY, "--model.depth", "1", "--model.heads", "2"]
    for part in ("0", "1"):
        run(load_settings("demo-gpt", [*words, "--data.part", part]), work / part)

    def key() -> str | None:
        a, b = (RunSubject(load_run(work / part)) for part in ("0", "1"))
        return twins_key(a, b, 12, rows=8)

    before = key()
    assert before is not None and key() == before
    forget(monkeypatch)
    edit(file)
    import_file(file)
    assert key() not in (before, None)


def test_an_imported_view_does_not_cost_the_measurements_of_others(tmp_path: Path, tiny_gpt: Run) -> None:
    """The run's own parts do not come from that file."""
    view, subject = VIEWS.create("raster"), RunSubject(tiny_gpt)
    before = key_of(view, subject, 60)
    import_file(copied("view", tmp_path))
    assert before is not None and key_of(view, subject, 60) == before


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("nowhere.py", None, ["--import", "'nowhere.py'", "cannot be read"]),
        ("rule.txt", "", ["'rule.txt' is not a Python file"]),
        ("syntax.py", "x = 1\ndef f(:\n", ["syntax.py, line 2", "SyntaxError", "correct the file"]),
        ("fails.py", "\nimport nothing_of_this_name\n", ["fails.py, line 2", "No module named"]),
        (
            "twice.py",
            "from twoclocks.rules import RULES, Parity\nRULES.register('parity')(type('P', (Parity,), {}))\n",
            ["twice.py, line 2", "already registered"],
        ),
    ],
)
def test_imports_that_fail_are_one_line(
    name: str, text: str | None, expected: list[str], work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (work / name).write_text(text, encoding="utf-8")
    assert main(["list", "presets", "--import", name]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and len(printed.err.strip().split("\n")) == 1
    assert all(part in printed.err for part in expected), printed.err
    (work / "x.yaml").write_text(f"base: demo\nimports: [{name}]\n", encoding="utf-8")
    assert main(["run", "x.yaml"]) == 2
    assert "imports" in capsys.readouterr().err


def test_imports_must_be_a_list(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "x.yaml").write_text("base: demo\nimports: my_rule.py\n", encoding="utf-8")
    assert main(["run", "x.yaml"]) == 2
    assert "imports: 'my_rule.py' is not allowed; use a list of Python files" in capsys.readouterr().err


def test_a_run_continues_only_with_its_imports(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import_file(copied("rule", work))
    words = [*PALINDROME, *TINY, *SMALL_DIT]
    done = run(load_settings("demo", words), work / "run")
    assert main(["run", "demo", *words, "--import", "my_rule.py", "--out", "run"]) == 0  # the same file, again
    assert "is finished" in capsys.readouterr().err and done.manifest["imports"]
    forget(monkeypatch)
    assert main(["run", "demo", *words, "--out", "run"]) == 2
    assert "rule.name: 'palindrome' is unknown" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(template_paths()))
def test_commands_of_a_template_can_be_typed(name: str, work: Path) -> None:
    copied(name, work)
    lines = [line.strip() for line in read_template(name).split("\n") if line.startswith("    twoclocks ")]
    assert len(lines) == 3 and lines[0] == f"twoclocks list templates {name} > my_{name}.py"
    for line in lines[1:]:
        asked = parse_arguments(line.split()[1:])
        assert asked.imports == [f"my_{name}.py"]
        if asked.command == "run":
            import_file(asked.imports[0])
            load_settings(asked.preset, asked.overrides)
