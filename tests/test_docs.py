"""The documentation is correct: examples and commands work, links exist, generated parts are up to date."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import generate_docs
import pytest
import yaml

import twoclocks
from twoclocks.cli import parse_arguments
from twoclocks.clocks.settings import POLICIES
from twoclocks.core import exit_codes
from twoclocks.data.images.fetch import NAMES
from twoclocks.data.images.options import MOST_PIXELS
from twoclocks.data.text.bible import COMMAND
from twoclocks.data.text.encoders import MOST_AT_ONCE, MOST_CHARACTERS
from twoclocks.data.text.fetch import BUILT_IN_BOOKS
from twoclocks.data.text.fetch import NAMES as TEXTS
from twoclocks.data.text.options import BLOCK
from twoclocks.data.text.packing import MOST_DOCUMENTS, MOST_LISTED
from twoclocks.integrations.trackers import TRACKERS
from twoclocks.monitor import CRITERIA, Ratio
from twoclocks.monitor.decision import MonitorPhase
from twoclocks.report.listing import list_rows
from twoclocks.report.page import write_report
from twoclocks.rules import RULES
from twoclocks.runs import Run, load_settings, run
from twoclocks.runs.assembly import Experiment
from twoclocks.runs.columns import clock_columns
from twoclocks.sweeps import read_plan
from twoclocks.testing import check_rule

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *sorted(DOCS.glob("*.md"))]
Names = dict[str, Any]
all_pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def code_blocks(page: Path, language: str = "python") -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text_of(page), re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def prose_of(page: Path) -> str:
    """A page without code, generated parts, tables and headings."""
    text = re.sub(r"<!-- generated: (.*?) -->.*?<!-- end: \1 -->", "", text_of(page), flags=re.DOTALL)
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^(\||#).*$", "", text, flags=re.MULTILINE)


def test_generated_parts_are_up_to_date() -> None:
    texts = {page: text_of(page) for page in generate_docs.pages()}
    for name in generate_docs.PARTS:
        assert any(f"<!-- generated: {name} -->" in text for text in texts.values()), name
    for page, text in texts.items():
        assert generate_docs.fill(text) == text, f"{page.name}: run make docs"


# Code blocks: the blocks of a page are one program; what a page says about its output is checked here.


def check_readme(names: Names, printed: str, folder: Path) -> None:
    (code,) = code_blocks(ROOT / "README.md")
    assert len([line for line in code.split("\n") if line.strip()]) <= 10
    assert printed.startswith("1.0 0.0 (0.0, 0.00")


def check_python(names: Names, printed: str, folder: Path) -> None:
    assert names["run"].metrics()["step"][-1] == 30
    assert names["decision"].phase == "rule learned" and names["decision"].step == 500
    assert (names["onset"].lower, names["onset"].upper) == (20, 40)
    assert names["law"].alpha == pytest.approx(1, abs=0.01)


def check_monitor(names: Names, printed: str, folder: Path) -> None:
    assert names["decision"].phase == "copying" and names["decision"].step == 700
    assert {"copies.png", "monitor.html", "monitor.json"} <= {path.name for path in folder.iterdir()}
    assert names["leak"].stop and names["leak"].copy_rate == names["found"].train.rate == 0.4
    page = text_of(DOCS / "monitor.md")
    assert all(f"`{policy}`" in page for policy in POLICIES)
    assert all(f"`{phase}`" in page for phase in get_args(MonitorPhase))
    assert all(cls.__name__ in page for _, cls in CRITERIA.items() if cls is not Ratio)


def check_clocks(names: Names, printed: str, folder: Path) -> None:
    assert len(read_plan(DOCS / "examples" / "law.yaml").cells) == 16


def check_concepts(names: Names, printed: str, folder: Path) -> None:
    by_name = {control.name.split(",")[0]: control for control in names["controls"]}
    for name in ("1-gram", "2-gram", "pairwise tree"):
        assert by_name[name].validity == 0 and f"{by_name[name].validity_ci[1]:.2%}" == "0.18%"
    assert by_name["3-gram"].validity == 1 and f"{by_name['3-gram'].copies:.2%}" == "0.05%"


def check_integrations(names: Names, printed: str, folder: Path) -> None:
    assert printed.startswith("1500 ") and names["hook"].watcher.trackers and (folder / "events").is_dir()
    assert names["callback"] in names["trainer"].callback_handler.callbacks
    named = re.findall(r"^\| `(\w+)` \|", text_of(DOCS / "integrations.md").partition("## Trackers")[2], re.MULTILINE)
    assert sorted(named) == TRACKERS.names()


def check_images(names: Names, printed: str, folder: Path) -> None:
    assert printed == "(1797, 1, 8, 8) digits:0 2fec1b79feb5\n(512, 1, 16, 16) []\n"
    page = text_of(DOCS / "images.md")
    assert all(f"| `{name}` |" in page for name in NAMES) and f"{MOST_PIXELS:,} pixels" in page


def check_widen(names: Names, out: str, folder: Path) -> None:
    assert [arm.settings.data.n for arm in names["experiment"].arms] == [64, 128] and "'more_data'] 3000" in out


def check_text(names: Names, printed: str, folder: Path) -> None:
    assert printed == "2 [['song.txt, document 3', 'song.txt, document 1']]\ngently down the stream\n"
    page = text_of(DOCS / "text.md")
    assert all(f"| `{name}` |" in page for name in TEXTS) and f"{MOST_DOCUMENTS:,} documents" in page
    assert f"`--block` characters ({BLOCK:,})" in page and f"at most {MOST_AT_ONCE:,} characters" in page
    assert f"--books {','.join(BUILT_IN_BOOKS)} " in page and " ".join(COMMAND) in page
    assert f"first {MOST_LISTED:,} are listed" in page and f"or {MOST_CHARACTERS:,} distinct characters" in page


def check_sweeps(names: Names, printed: str, folder: Path) -> None:
    assert [row["state"] for row in names["rows"]] == ["finished", "finished"]
    assert (folder / "sweeps" / "law" / "table.parquet").exists()
    for column in re.findall(r"`(tau_\w+_\w+)`", text_of(DOCS / "sweeps.md")):
        assert column in names["rows"][0], column


def check_rules(names: Names, printed: str, folder: Path) -> None:
    assert "28200960" in printed
    assert names["first"].shape == names["second"].shape == (512, 6, 6)


def check_oracles(names: Names, printed: str, folder: Path) -> None:
    assert names["highest"] == {"parity": 5, "exact_k": 1}
    rows = re.findall(r"^\| (\d\.\d) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", text_of(DOCS / "oracles.md"), re.M)
    assert len(rows) == 4
    for row in rows:
        (line,) = [line for line in printed.split("\n") if line.startswith(f"{row[0]} [")]
        assert re.findall(r"([\d.]+) ±", line) == list(row[1:])
    assert "[0.0, 0.0, 0.0, 0.0, 0.0, 1.0," in printed and "[0.0, 0.96, " in printed


def check_laboratory(names: Names, printed: str, folder: Path) -> None:
    assert 1_500 < names["descent"].gap_onset(10.0, 0.1) < 1_900  # the page says 1,700
    assert 64 / (2 * 10 * names["local"].value) == pytest.approx(540_000, rel=0.1)


def check_dissection(names: Names, printed: str, folder: Path) -> None:
    assert set(names["found"].infos) == {"raster", "positions"} and "basin" in printed.lower()


CHECKS: dict[str, Callable[[Names, str, Path], None]] = {
    "README.md": check_readme,
    "clocks.md": check_clocks,
    "monitor.md": check_monitor,
    "concepts.md": check_concepts,
    "dissection.md": check_dissection,
    "images.md": check_images,
    "integrations.md": check_integrations,
    "laboratory.md": check_laboratory,
    "oracles.md": check_oracles,
    "python.md": check_python,
    "rules.md": check_rules,
    "sweeps.md": check_sweeps,
    "text.md": check_text,
    "widen.md": check_widen,
}


def write_small_sweep(folder: Path) -> None:
    """The sweep of docs/sweeps.md, as a smaller grid; the page names the number of cells of the full one."""
    page = DOCS / "sweeps.md"
    (spec,) = code_blocks(page, "yaml")
    (folder / "law.yaml").write_text(spec)
    assert f"list the {len(read_plan(folder / 'law.yaml').cells)} cells" in text_of(page)
    small = "set: {training.steps: 20, evaluation.first: 5, evaluation.evaluations: 4}"
    for old, new in (
        ("set: {training.steps: 600}", small),
        ("[32, 64, 128]", "[32]"),
        ("count: 3", "count: 2"),
        ("training: 2, data: [0, 1]", "training: 1"),
    ):
        assert old in spec
        spec = spec.replace(old, new)
    (folder / "law.yaml").write_text(spec)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if code_blocks(page) and page.name != "CONTRIBUTING.md"],  # tested below
    ids=lambda page: page.name,
)
def test_code_of_every_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if page.name == "sweeps.md":
        write_small_sweep(tmp_path)
    names: Names = {}
    exec(compile("\n".join(code_blocks(page)), page.name, "exec"), names)
    CHECKS[page.name](names, capsys.readouterr().out, tmp_path)


def test_the_rule_of_the_contributing_page_passes_its_contract_and_trains(tmp_path: Path) -> None:
    page = ROOT / "CONTRIBUTING.md"
    (code,) = code_blocks(page)
    name = "example_of_the_page"  # the page's own name may be taken by someone who followed it
    try:
        exec(compile(code.replace('"palindrome"', f'"{name}"'), "CONTRIBUTING.md", "exec", dont_inherit=True), {})
        check_rule(RULES.create(name, half=4))
        RULES.get(name).examples = ()  # a rule of another package need not have any
        assert name in [row["rule"] for row in list_rows("rules")] and list_rows("metrics")
        pattern = r"twoclocks run (demo-gpt) .*(--rule\.name palindrome --rule\.half 12)"
        (command,) = re.findall(pattern, text_of(page))
        words = command[1].replace("palindrome", name).split()
        fast = ["--training.steps", "20", "--evaluation.first", "5", "--evaluation.evaluations", "4"]
        done = run(load_settings(command[0], [*words, *fast]), tmp_path / "run")
        assert "pair_accuracy" in done.metrics()
    finally:
        RULES._members.pop(name, None)


# Commands


def commands_of(page: Path) -> list[list[str]]:
    lines = "".join(code_blocks(page, "sh")).replace("\\\n", " ").strip().split("\n")
    split = [shlex.split(line.partition(" > ")[0], comments=True) for line in lines]  # without a redirection to a file
    return [words for words in split if words]


@all_pages
def test_commands_of_every_page_are_valid(page: Path, files_of_the_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files_of_the_user)  # presets for images of the reader name files here
    targets = re.findall(r"^([\w-]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
    for words in commands_of(page):
        match words:
            case ["make", target]:
                assert target in targets
            case ["python", program, *_]:
                assert (ROOT / program).exists()
            case ["twoclocks", *rest]:
                check_command(rest, reader_files=("text8", "palindrome", "mine.yaml"))
            case ["export" | "echo", *_]:  # start and stop of NVIDIA's MPS, which needs a GPU
                assert "nvidia-cuda-mps-control" in words
            case _:
                pytest.fail(f"{page.name}: {words[0]} is not checked")


def check_command(words: list[str], reader_files: tuple[str, ...]) -> None:
    """The parser accepts a command; the settings of a run exist, unless it needs a file of the reader's."""
    asked = parse_arguments(words)
    if words[0] == "run" and not set(words) & set(reader_files):
        load_settings(asked.preset, asked.overrides)


def test_pages_have_the_commands_that_are_checked() -> None:
    runs = {page.name: [words for words in commands_of(page) if words[:2] == ["twoclocks", "run"]] for page in PAGES}
    assert len(runs["rules.md"]) == 8 and len(runs["laboratory.md"]) >= 8 and len(runs["dissection.md"]) >= 4


@all_pages
def test_programs_that_a_page_names_exist(page: Path) -> None:
    for program in re.findall(r"\b((?:benchmarks|studies|tools|tests)/[\w/]+\.py)\b", text_of(page)):
        moved = page.name == "CHANGELOG.md" and program.startswith("benchmarks/")
        assert moved or (ROOT / program).exists() or "palindrome" in program, program


def test_every_exit_code_is_in_the_table() -> None:
    page = text_of(DOCS / "reliability.md").partition("## Exit codes")[2]
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    named = vars(exit_codes)
    assert listed == {0, *(value for name, value in named.items() if name.startswith("EXIT_"))}


def test_what_the_rules_page_says_of_the_cyclic_generators() -> None:
    page = text_of(DOCS / "rules.md")
    for name, settings in (
        *(("latin_cyclic", {"side": side}) for side in (4, 5, 6)),
        *(("sudoku_cyclic", {"block_rows": 2, "block_cols": columns}) for columns in (2, 3)),
    ):
        rule = RULES.create(name, **settings)
        assert f"| {rule.support():,} | {rule.count():,} |" in page
    uniform, cyclic = RULES.create("latin", side=6), RULES.create("latin_cyclic", side=6)
    assert round(cyclic.copy_chance(9) / uniform.copy_chance(9)) == 157


# The walk through the source


def stops() -> list[tuple[str, str]]:
    """File and name of each stop of "Follow one copy flag"."""
    page = text_of(DOCS / "architecture.md").partition("## Follow one copy flag")[2].partition("\n## ")[0]
    found = re.findall(r"^(\d+)\. `([\w/]+\.py)` · `([\w.]+)`", page, re.MULTILINE)
    assert [int(number) for number, _, _ in found] == list(range(1, len(found) + 1))
    return [(file, name) for _, file, name in found]


def stop(name: str) -> Callable[..., Any]:
    """The object at the stop with this name, from the file that the page gives."""
    (file,) = [file for file, other in stops() if other == name]
    found: Any = import_module(f"twoclocks.{file.removesuffix('.py').replace('/', '.')}")
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def test_every_stop_of_the_walk_is_defined_where_the_page_says() -> None:
    assert 8 <= len(stops()) <= 12
    for file, name in stops():
        assert stop(name).__module__ == f"twoclocks.{file.removesuffix('.py').replace('/', '.')}"
        assert stop(name).__qualname__ == name


def test_number_of_copies_is_the_same_at_every_stop_of_the_walk(tiny_gpt: Run, tmp_path: Path) -> None:
    settings = tiny_gpt.settings
    experiment = Experiment(settings)
    checkpoint = tiny_gpt.directory.read_checkpoint()
    experiment.load_state(checkpoint.step, checkpoint.step, checkpoint.tensors)
    journal, name, n = tiny_gpt.path / "metrics.jsonl", "sample_memorization", settings.evaluation.samples

    encoded = stop("sample")(experiment.objective, experiment.network, experiment.noise)
    decoded = experiment.encoding.decode(settings.rule, encoded)
    flags = stop("Copies.found")(experiment.evaluator.copies, decoded.symbols)
    assert encoded.shape == (n, 8) and decoded.symbols.shape == (*flags.shape, 8) == (n, 8)
    train = {tuple(row) for row in experiment.train_rows.tolist()}
    copies = sum(tuple(row) in train for row in decoded.symbols.tolist())  # the slow way
    assert 0 < copies == int(flags.sum()) < n

    samples = experiment.evaluator.checked(decoded)
    (metric,) = [one for one in experiment.evaluator.metrics if one.name == name]
    assert stop("SampleMemorization.__call__")(metric, samples)[name].hits == copies
    row = stop("Evaluator.row")(experiment.evaluator, decoded)
    line = json.loads(text_of(journal).splitlines()[-1])
    rows = stop("Run.rows")(tiny_gpt)
    for one in (row, line, rows[-1]):
        assert (one[f"{name}_hits"], one["trials"]) == (copies, n)
    columns = clock_columns(settings.rule.part_counts())
    series = stop("Series.from_rows")(rows, columns)
    assert series.copied[-1] == copies and len(series.copied) == len(rows)

    chance = settings.rule.copy_chance(settings.data.n)
    tau_mem = stop("ClockSettings.read")(settings.clocks, series, chance).memory
    how = settings.clocks.memory_levels(chance).nominal, settings.clocks.sustain, settings.clocks.confidence
    onset = stop("onset")(series.steps, series.copied, series.trials, *how)
    assert tau_mem.status == "observed" and (tau_mem.lower, tau_mem.upper) == (onset.lower, onset.upper)
    info = stop("curves_data")(tiny_gpt)
    assert info.proportions[1].values[-1] == copies / n and info.clocks.memory == tau_mem
    page = text_of(write_report([tiny_gpt], tmp_path / "page.html"))
    assert f'<td class="number memory">{tau_mem}</td>' in page


# Writing


def anchors_of(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@all_pages
def test_links_and_pictures_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", text_of(page)):
        if not target.startswith("http"):
            path, _, anchor = target.partition("#")
            linked = page.parent / path if path else page
            assert linked.exists(), target
            assert not anchor or anchor in anchors_of(linked), target


@all_pages
def test_lines_of_prose_are_short(page: Path) -> None:
    assert [line for line in prose_of(page).split("\n") if len(line) >= 120] == []


@all_pages
def test_abbreviations_are_explained_where_they_are_first_used(page: Path) -> None:
    text = prose_of(page)
    words = ["DiT", "GPT", "EDM", "D3PM", "MD4", "RHM", "NTK", "μP"]
    if page.name == "concepts.md":  # the page that the links lead to
        assert all(f"\n| {word} | " in text_of(page) for word in words)
        words = []
    for word in ("P1", "P2", *words):
        if found := re.search(rf"(?<![\w`-]){word}(?![\w`])", text):
            assert "](" in text[found.start() : found.start() + 200], f"{word} has no link at its first use"


def test_readme_is_short_and_cites_the_papers() -> None:
    text = text_of(ROOT / "README.md")
    assert len(text) < 9_000
    citation = yaml.safe_load(text_of(ROOT / "CITATION.cff"))
    assert {"cff-version", "message", "title", "authors", "references"} <= citation.keys()
    assert citation["authors"] == [{"name": "The twoclocks developers"}]
    assert citation["version"] == twoclocks.__version__ and len(citation["references"]) == 2
    for paper in citation["references"]:
        assert paper["url"] in text and all(author["family-names"] in text for author in paper["authors"])
