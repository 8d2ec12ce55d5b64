"""Names of folders, groups, functions and tokens are shown as they are, in every drawing and page, and do nothing."""

from __future__ import annotations

import html
import os
import re
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import twoclocks as tc
from twoclocks.analysis.batches import BatchLaw, batch_law
from twoclocks.analysis.laws import Fit, fit_runs
from twoclocks.analysis.phases import phase_diagram
from twoclocks.cli import main
from twoclocks.core.text import short, visible
from twoclocks.core.theme import picture, style, themed_svg
from twoclocks.monitor.gallery import Gallery
from twoclocks.monitor.page import write_page
from twoclocks.monitor.state import MonitorState
from twoclocks.report.batches import batch_info, draw_batches
from twoclocks.report.collapses import collapse_data, draw_collapses
from twoclocks.report.curves import curves_data, draw_curves
from twoclocks.report.laws import draw_laws, law_info
from twoclocks.report.page import write_report
from twoclocks.report.phases import draw_phases, draw_verdicts
from twoclocks.report.places import check_owner
from twoclocks.runs import Run, load_run, load_settings
from twoclocks.testing.runs import write_run

NAMES = [
    *(r"$\frac$", r"$x_", r"$a$b$", r"\frac{1}{2}", "%s%d%", "{{7*7}}{x!r}", "<script>alert(1)</script>", "&lt;b&amp;"),
    *(
        '" onload="x',
        "id=\"a' #1c2430",
        "日本語",
        "👩‍💻😀",
        "ab\u202ecba\u2066x",
        "a\x1b[31mb\x07",
        "a\nb\tc",
        "\ufeff\u200b",
    ),
    *("\x7f\x85\u2028", "n" * 60 + "é" * 97, "$" * 250, "ﷺ" * 5, "e\u0301\u0327" * 9),
]
CLOCKS = {"memory_threshold": 0.3, "above_chance": True, "sustain": 1}
SMALL = {
    "rule.length": 24,
    "rule.group": 2,
    "training.steps": 2000,
    "evaluation.samples": 2048,
    "evaluation.evaluations": 12,
}


@pytest.fixture(autouse=True)
def strict() -> Any:
    """A warning, such as one about a missing glyph, is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def text_of(svg: str) -> list[str]:
    """What a viewer shows; the SVG must be well-formed."""
    return ["".join(one.itertext()) for one in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def check_drawn(figure: Any, name: str) -> None:
    """The name is written in the figure, as it is or with its middle left out; no other text is a formula."""
    found = text_of(themed_svg(figure, salt="x"))
    whole = "".join(found)
    expected = visible(name)
    ends = [expected] if len(expected) < 30 else [expected[:12], expected[-12:]]
    assert all(re.sub(r"\s", "", end) in re.sub(r"\s", "", whole) for end in ends), (name, found)
    if "$" not in name:
        assert "$" not in whole, found


def known(folder: Path, **change: Any) -> Run:
    settings = load_settings("demo-gpt", {**SMALL, **change})
    steps = np.array(settings.schedule, dtype=float)
    rising = 1 / (1 + (np.maximum(steps, 1) / 300) ** -6.0)
    learned = 1 / (1 + (np.maximum(steps, 1) / 30) ** -6.0)
    columns = {"sample_accuracy": learned, "sample_memorization": rising, "valid_new": 1 - rising}
    return write_run(folder, settings, columns)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Runs of four sizes, and of three batches."""
    folder = tmp_path_factory.mktemp("known")
    sizes = [known(folder / f"n{n}", **{"data.n": n}) for n in (16, 32, 64, 128)]
    return sizes + [known(folder / f"b{batch}", **{"data.n": 64, "training.batch": batch}) for batch in (16, 32)]


def test_every_name_is_drawn_as_it_is() -> None:
    """One figure in our style with all of them, as a title, a text and an entry of a legend each."""
    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(9, 9))
        for axis, name in zip(figure.subplots(6, 4).flat, NAMES, strict=False):
            axis.set_title(name)
            axis.text(0, 0, name)
            axis.plot([0], [0], label=f"legend {name}")
            axis.legend()
    found = re.sub(r"\s", "", "".join(text_of(themed_svg(figure, salt="x"))))
    for name in NAMES:
        assert found.count(re.sub(r"\s", "", visible(name, keep="\n"))) >= 3, name
    assert picture(figure).startswith(b"\x89PNG")


def test_every_drawing_of_runs_shows_names_as_they_are(runs: list[Run], tiny_dit: Run) -> None:
    info, laws, phases = curves_data(tiny_dit), fit_runs(runs), phase_diagram(runs)
    law: BatchLaw = batch_law(runs[2:3] + runs[4:])
    for name in (r"$\frac$ <b>&amp;%s{x}" + "日😀\x1b\u202e", "n" * 255):
        check_drawn(draw_curves([replace(info, title=name), info]), name)
        points = [replace(point, group=f"{name}{'' if number else '.'}") for number, point in enumerate(laws.points)]
        check_drawn(draw_laws([law_info(replace(laws, points=tuple(points), groups=(Fit(name, None, name),)))]), name)
        grouped = replace(phases, runs=tuple(replace(r, group=name + "." * (k > 2)) for k, r in enumerate(phases.runs)))
        check_drawn(draw_phases(grouped), name)
        check_drawn(draw_verdicts(grouped), name)
        check_drawn(draw_batches([batch_info(law, name)]), name)
        check_drawn(draw_collapses([replace(one, title=name) for one in collapse_data(runs)]), name)


def test_a_page_of_folders_with_any_names(tiny_dit: Run, tmp_path: Path, empty_figures: None) -> None:
    names = [name for name in NAMES if "/" not in name and len(os.fsencode(name)) <= 255][::2]
    for number, name in enumerate([*names, os.fsdecode(b"\xff\xfe not UTF-8"), "x" * 255, "<b>\n\u202e"]):
        folder = tmp_path / str(number) / name
        folder.parent.mkdir()
        shutil.copytree(tiny_dit.path, folder)
        page = write_report([load_run(folder)], tmp_path / f"{number}.html")
        check_page_shows(page, name)
        check_owner(page, [load_run(folder)])  # the same run may be written again
        with pytest.raises(ValueError, match="page of another run"):
            check_owner(page, [tiny_dit])


def check_page_shows(page: Path, name: str) -> None:
    """The name is text of the page, and nothing in it acts on the page."""
    text = page.read_text(encoding="utf-8")
    assert visible(name, keep="\n\t") in html.unescape(text), name
    assert "<script>alert" not in text and 'onload="x"' not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


def test_two_runs_are_drawn_with_their_names(tiny_dit: Run, tmp_path: Path) -> None:
    """With two runs, names are titles of the picture as well."""
    folders = [tmp_path / name for name in (r"$\frac$", "$x_ 日本語 😀 \x1b[31m")]
    for folder in folders:
        shutil.copytree(tiny_dit.path, folder)
    page = write_report([load_run(folder) for folder in folders], tmp_path / "two.html")
    for folder in folders:
        check_page_shows(page, folder.name)
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_the_commands_write_their_default_pages_beside_folders_with_any_names(
    tiny_gpt: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_figures: None
) -> None:
    for name in (r"$\frac$", "a\x1b[31mb", "日本語", "%s", "x" * 200):
        shutil.copytree(tiny_gpt.path, tmp_path / name)
        assert main(["report", str(tmp_path / name)]) == 0
        assert (tmp_path / f"{name}-report.html").is_file()
    shutil.copytree(tiny_gpt.path, tmp_path / ("y" * 250))
    assert main(["report", str(tmp_path / ("y" * 250))]) == 2  # the page's own name would be too long
    assert "--out" in capsys.readouterr().err


def test_the_galleries_and_page_of_a_monitor_show_any_text(tmp_path: Path) -> None:
    texts = [f"{name} a b c d e f {number}" for number, name in enumerate(NAMES)]
    monitor = tc.Monitor(texts, copies=tc.monitor.Verbatim(4))
    for number in range(0, len(texts), 8):  # so many pairs are drawn
        monitor.observe(number, texts[number : number + 8])
        monitor.gallery(tmp_path / "gallery.svg")
        shown = re.sub(r"\s", "", "".join(text_of((tmp_path / "gallery.svg").read_text(encoding="utf-8"))))
        assert shown.count("abcdef") == 2 * len(texts[number : number + 8])
        for name in (name for name in NAMES[number : number + 8] if len(name) < 40):
            assert "".join(visible(word) for word in name.split()) in shown, name
    monitor.report(tmp_path / "page.html")


def test_the_page_and_the_gallery_of_a_monitor_show_names_of_functions(tmp_path: Path, request: Any) -> None:
    def distance(samples: Any, train: Any) -> Any:
        return np.zeros(len(samples))

    distance.__qualname__ = r"$\frac$ <b> 😀"
    monitor = tc.Monitor(np.eye(4), copies=tc.monitor.Distance(distance, 1.0), valid=lambda x: np.ones(len(x)))
    monitor.observe(1, np.eye(4))
    monitor.gallery(tmp_path / "copies.svg")
    assert distance.__qualname__ in " ".join(text_of((tmp_path / "copies.svg").read_text(encoding="utf-8")))
    monitor.report(tmp_path / "page.html")
    check_page_shows(tmp_path / "page.html", distance.__qualname__)
    check_drawn(Gallery(step=1, criterion=distance.__qualname__).draw(), distance.__qualname__)
    request.getfixturevalue("empty_figures")
    for name in NAMES:
        write_page(replace(MonitorState.from_json(monitor.state()), copies=name), tmp_path / "page.html")
        check_page_shows(tmp_path / "page.html", name)


def test_visible_and_short_are_idempotent() -> None:
    for name in NAMES:
        assert visible(visible(name)) == visible(name)
        assert len(short(name, 40)) <= 40 and short(short(name, 40), 40) == short(name, 40)
    assert visible("\ud800") == "\\ud800" and visible("\ufffe") == "\\ufffe"
