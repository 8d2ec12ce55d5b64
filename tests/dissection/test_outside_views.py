"""A view and its drawing from outside the package: registered by a module or by entry points, measured and drawn."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from twoclocks.dissection import VIEWS, Dissection, dissect_run
from twoclocks.report.drawings import DRAWINGS, Drawing, why_chapter
from twoclocks.report.page import write_report
from twoclocks.runs import Run, load_run
from twoclocks.testing import check_view

VIEW = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from twoclocks.dissection import VIEWS, Info, View
from twoclocks.dissection.view import Probe


@dataclass(frozen=True)
class OnesInfo(Info):
    share: np.ndarray

    def sentences(self):
        return [f"At the last step {self.share[-1]:.1%} of the symbols are ones."]

    def numbers(self):
        return {"share": self.share.tolist()}


@VIEWS.register("ones")
@dataclass(frozen=True, kw_only=True)
class Ones(View):
    """Fraction of ones in samples."""

    reads: ClassVar[str] = "samples"

    def prepare(self, subject):
        return OnesProbe(subject)

    def info(self, subject, steps, constants, measurements):
        return OnesInfo(np.array(steps), subject.clocks, measurements["share"][:, 0])


class OnesProbe(Probe):
    def __init__(self, subject):
        self.subject = subject

    def measure(self, step):
        return {"share": np.array([float(self.subject.samples(step).symbols.double().mean())])}
'''
DRAWING = """
from matplotlib.figure import Figure

from twoclocks.report.drawings import DRAWINGS, Drawing


@DRAWINGS.register("ones")
class OnesDrawing(Drawing):
    title = "Ones over training"
    order = 15

    def draw(self, info):
        figure = Figure(figsize=(3, 2))
        figure.subplots().plot(info.steps, info.share, label="share of ones")
        return figure
"""


@pytest.fixture
def dit(tiny_dit: Run, tmp_path: Path) -> Run:
    shutil.copytree(tiny_dit.path, tmp_path / "dit", ignore=shutil.ignore_patterns("dissection"))
    return load_run(tmp_path / "dit")


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules that can be imported; what they register is gone after the test."""
    folder = tmp_path / "outside"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for registry in (VIEWS, DRAWINGS):
        registry._members.pop("ones", None)
    for name in ("ones_view", "ones_drawing"):
        sys.modules.pop(name, None)


def load(folder: Path, name: str, source: str) -> ModuleType:
    (folder / f"{name}.py").write_text(source)
    return import_module(name)


def test_a_view_without_a_drawing_shows_its_sentences(dit: Run, outside: Path) -> None:
    view = load(outside, "ones_view", VIEW).Ones()
    check_view(view, dit)
    found = dissect_run(dit, ["ones", "raster"])
    chapter = why_chapter(found, "x")
    assert [part.name for part in chapter.sections] == ["raster", "ones"]
    last = chapter.sections[-1]
    assert (last.title, last.figure, last.film) == ("ones", "", None) and last.sentences == found.infos[
        "ones"
    ].sentences()
    page = write_report([dit], dit.path.parent / "page.html", {dit.path: found}).read_text()
    assert last.sentences[0] in page


def test_a_drawing_from_outside_takes_its_place_on_the_page(dit: Run, outside: Path) -> None:
    load(outside, "ones_view", VIEW)
    load(outside, "ones_drawing", DRAWING)
    found = dissect_run(dit, ["approach", "ones", "raster"])
    chapter = why_chapter(found, "x")
    assert [part.name for part in chapter.sections] == ["raster", "ones", "approach"]  # orders 10, 15, 20
    assert chapter.sections[1].title == "Ones over training" and "<svg role" in chapter.sections[1].figure
    page = write_report([dit], dit.path.parent / "page.html", {dit.path: found}).read_text()
    assert re.search(r"Ones over training.*?<svg", page, re.DOTALL)


def test_views_and_drawings_of_an_installed_package_are_found_by_their_entry_points(dit: Run, outside: Path) -> None:
    (outside / "ones_view.py").write_text(VIEW)
    (outside / "ones_drawing.py").write_text(DRAWING)
    about = outside / "ones-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ones\nVersion: 1.0\n")
    points = "[twoclocks.views]\nones = ones_view\n\n[twoclocks.drawings]\nones = ones_drawing\n"
    (about / "entry_points.txt").write_text(points)
    page = dit.path.parent / "ones.html"
    path = os.pathsep.join([str(outside), *filter(None, sys.path)])
    command = [sys.executable, "-m", "twoclocks", "dissect", str(dit.path), "--views", "ones", "--out", str(page)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "of the symbols are ones." in done.stdout
    assert "Ones over training" in page.read_text()


def test_drawings_of_this_package_have_titles_and_different_places() -> None:
    members = [drawing for _, drawing in DRAWINGS.items()]
    assert len({drawing.title for drawing in members}) == len({drawing.order for drawing in members}) == len(members)
    assert max(drawing.order for drawing in members) < Drawing.order
    assert why_chapter(Dissection({}, {"x": "why"}), "salt").refused == {"x": "why"}
