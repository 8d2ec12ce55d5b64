"""The docs site: all pages are collected with links that hold, the API reference is complete, faults are found."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import build_site
import pytest
import yaml
from api_reference import docstring, reference_pages

import twoclocks as tc

ROOT = Path(__file__).parents[1]


def nav_files(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [file for part in parts for file in nav_files(part)]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    build_site.collect(folder)
    return folder


def test_every_page_is_in_the_navigation(pages: Path) -> None:
    listed = nav_files(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert set(listed) == {str(path.relative_to(pages)) for path in pages.glob("*.md")} | {"api/index.md"}


def test_links_of_collected_pages_stay_inside_the_site(pages: Path) -> None:
    for page in pages.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert "](../" not in text and "](docs/" not in text, page.name
    assert "](results/sampler.json)" in (pages / "laboratory.md").read_text(encoding="utf-8")
    assert (pages / "results" / "sampler.json").exists() and (pages / "demo.png").exists()


def test_api_reference_has_every_public_name() -> None:
    reference = reference_pages()
    folders = [name for name in tc.__all__ if isinstance(getattr(tc, name), ModuleType)]
    assert set(reference) == {"index.md", *(f"{name}.md" for name in folders)}
    for folder in folders:
        for name in getattr(tc, folder).__all__:
            assert f"## tc.{folder}.{name}\n" in reference[f"{folder}.md"]
    assert "| `length` | `int` | required | number of bits D |" in reference["rules.md"]  # settings with their help
    assert "tc.clocks.fit_law(" in reference["clocks.md"] and "```pycon\n>>> " in reference["rules.md"]


def test_examples_of_a_docstring_become_code_blocks() -> None:
    def documented() -> None:
        """Says ``this``.

        >>> 1 + 1
        2

        And more.
        """

    assert docstring(documented) == "Says `this`.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nAnd more."


def test_faults_of_a_built_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text('<h2 id="here">x</h2><a href="https://example.org">x</a><a href="#here">x</a>')
    assert build_site.problems(tmp_path) == []
    (tmp_path / "bad.html").write_text(
        '<a href="missing.html">x</a><a href="good.html#nowhere">x</a><a href="good.html#here">x</a>'
        '<script src="https://example.org/x.js"></script><link rel="stylesheet" href="//example.org/x.css">'
    )
    (tmp_path / "style.css").write_text("@font-face {src: url(https://example.org/font.woff2)}")
    assert build_site.problems(tmp_path) == [
        "bad.html: loads https://example.org/x.js",
        "bad.html: loads //example.org/x.css",
        "bad.html: missing.html does not exist",
        "bad.html: good.html#nowhere has no such heading",
        "style.css: loads https://example.org/font.woff2",
    ]


@pytest.mark.skipif(
    importlib.util.find_spec("zensical") is None, reason="needs the extra [docs]; make site installs it"
)
def test_the_site_builds_without_faults() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "build_site.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and ", 0 problems" in done.stdout, done.stdout + done.stderr
