"""Results that are kept between processes: used again only while nothing that they depend on has changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import twoclocks

OLD_RUN = Path(__file__).parents[1] / "fixtures" / "format-2"
COUNTING = """
from twoclocks.core.cached import cached

def compute():
    print("computed")
    return [{"name": "τ", "value": 0.1}]

assert cached("result", compute) == [{"name": "τ", "value": 0.1}]
"""


@pytest.fixture
def empty_cache(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with an empty cache."""
    (tmp_path / "cache").mkdir()
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "TWOCLOCKS_CACHE": "1"}


@pytest.fixture
def environment(tmp_path: Path, empty_cache: dict[str, str]) -> dict[str, str]:
    """The same, with a copy of the package's source that may be changed."""
    package = Path(twoclocks.__file__).parent
    shutil.copytree(package, tmp_path / "source" / "twoclocks", ignore=shutil.ignore_patterns("__pycache__"))
    return {**empty_cache, "PYTHONPATH": str(tmp_path / "source")}


def execute(code: str, environment: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_computed(environment: dict[str, str], before: str = "") -> bool:
    """Whether a new process computes the result, or reads the stored one; ``before`` is code that it runs first."""
    return execute(before + COUNTING, environment).count("computed") == 1


def test_a_result_is_computed_once_per_version_of_the_source_code(environment: dict[str, str]) -> None:
    assert [is_computed(environment) for _ in range(3)] == [True, False, False]
    package = Path(environment["PYTHONPATH"]) / "twoclocks"
    changed = package / "models" / "dit.py"
    original = changed.read_bytes()
    changed.write_bytes(original.replace(b"a", b"b", 1))  # of the same size
    assert [is_computed(environment) for _ in range(2)] == [True, False]
    changed.write_bytes(original)
    assert [is_computed(environment) for _ in range(2)] == [True, False]
    changed.rename(changed.with_name("dit2.py"))
    assert is_computed(environment)
    assert [path.name for path in Path(environment["XDG_CACHE_HOME"]).rglob("*.*")] == ["result.json"]  # no leftovers


def test_a_damaged_file_is_computed_again(environment: dict[str, str]) -> None:
    assert is_computed(environment)
    file = Path(environment["XDG_CACHE_HOME"]) / "twoclocks" / "result.json"
    stored = file.read_bytes()
    for damaged in (b"", b"\xff\x00", stored[:-1], stored.replace(b"0.1", b"0.2"), stored.split(b"\n")[1], b"[]\n[]"):
        assert damaged != stored
        file.write_bytes(damaged)
        assert is_computed(environment) and file.read_bytes() == stored
    shutil.copy(file, file.with_name("other.json"))  # what is stored under another name is another result
    assert "computed" in execute(COUNTING.replace('"result"', '"other"'), environment)


def test_components_from_elsewhere_switch_the_cache_off(environment: dict[str, str], tmp_path: Path) -> None:
    register = (
        "from twoclocks.core.registry import Registry\n"
        "Registry('thing', object).register('mine')(type('Mine', (), {}))\n"
    )
    loaded = "import sys, types; sys.modules['torch'] = types.ModuleType('torch')"
    for _ in range(2):
        assert is_computed(environment, register)
        assert is_computed({**environment, "TWOCLOCKS_CACHE": "0"})
        assert is_computed(environment, loaded)  # there is nothing to be gained
    assert not any(Path(environment["XDG_CACHE_HOME"]).iterdir())
    assert [is_computed(environment) for _ in range(2)] == [True, False]
    installed = tmp_path / "source" / "mine-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[twoclocks.rules]\nmine = mine\n")
    assert [is_computed(environment) for _ in range(2)] == [True, True]
    shutil.rmtree(installed)
    assert not is_computed(environment)


def test_a_folder_that_cannot_be_written_costs_only_time(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for _ in range(2):
        assert is_computed({**environment, "XDG_CACHE_HOME": str(tmp_path / "file")})
    home = {**environment, "XDG_CACHE_HOME": "relative", "HOME": str(tmp_path / "home")}
    assert [is_computed(home) for _ in range(2)] == [True, False]
    assert (tmp_path / "home" / ".cache" / "twoclocks" / "result.json").exists()


def call(words: list[str], environment: dict[str, str]) -> tuple[str, bool]:
    """What a command prints in a new process, and whether it loads torch."""
    code = f"import sys; from twoclocks.cli import main; assert main({words!r}) == 0; print('torch' in sys.modules)"
    printed, loaded, _ = execute(code, environment).rsplit("\n", 2)
    return printed, loaded == "True"


@pytest.mark.slow
def test_the_second_list_is_the_same_without_torch(empty_cache: dict[str, str], tmp_path: Path) -> None:
    words = ["list", "objectives", "--json"]
    printed, loaded = call(words, empty_cache)
    assert json.loads(printed) and loaded
    assert call(words, empty_cache) == (printed, False)
    shutil.copy(Path(twoclocks.__file__).with_name("templates") / "objective.py", tmp_path / "mine.py")
    with_mine, _ = call([*words, "--import", str(tmp_path / "mine.py")], empty_cache)
    assert len(json.loads(with_mine)) == len(json.loads(printed)) + 1
    assert call(words, empty_cache) == (printed, False)  # the user's objective was not stored


@pytest.mark.slow
def test_the_second_clocks_of_an_old_run_are_the_same_without_torch(empty_cache: dict[str, str]) -> None:
    words = ["clocks", str(OLD_RUN), "--json"]
    printed, loaded = call(words, empty_cache)
    assert json.loads(printed)[0]["model"] == "GPT 16×1" and loaded
    assert call(words, empty_cache) == (printed, False)
