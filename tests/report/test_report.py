"""The report: complete, self-contained, and drawing nothing that was not computed."""

from __future__ import annotations

import itertools
import math
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from twoclocks.clocks import Clocks, Onset
from twoclocks.core.errors import UserError
from twoclocks.core.theme import COLOURS, themed_svg
from twoclocks.evaluation import Outcome
from twoclocks.evaluation.states import STATES, states_of
from twoclocks.report.curves import Curve, Milestone, curves_data, draw_curves, milestones_within
from twoclocks.report.page import chapter, render, verdict_sentence, write_report
from twoclocks.report.strip import MARKS, strip_data
from twoclocks.report.together import Together
from twoclocks.runs import Run, load_settings
from twoclocks.runs import run as train
from twoclocks.store.folders import DERIVED


class Collector(HTMLParser):
    """Tags, attributes and ids of a page; void tags need no end."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "link", "br", "img", "rect", "input"}:
            self.open.append(tag)
        for name, value in attributes:
            if name in {"src", "href", "xlink:href", "action", "data", "poster"}:
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


@pytest.fixture(scope="module")
def page(tiny_dit: Run, tiny_gpt: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    never_dissected = shutil.ignore_patterns(DERIVED)  # another test may have measured views of these runs
    copies = [shutil.copytree(run.path, folder / run.path.name, ignore=never_dissected) for run in (tiny_dit, tiny_gpt)]
    path = write_report([Run(copy) for copy in copies], folder / "report.html")
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    return path.read_text(encoding="utf-8")


def test_page_is_well_formed_and_loads_nothing(page: str) -> None:
    collector = Collector()
    collector.feed(page)
    assert collector.open == []
    assert all(link.startswith("#") for link in collector.links), collector.links
    assert "<script src" not in page and "@import" not in page and "url(http" not in page
    own = "".join(re.findall(r"<script>(.*?)</script>", page, re.DOTALL))
    assert page.count("<script>") == 1 and len(own) < 8_000, "one script, of a few kB"
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|localStorage|eval\(", own)
    assert len(collector.ids) == len(set(collector.ids)), "ids of two figures collide"
    for reference in re.findall(r"url\(#([^)]+)\)", page):
        assert reference in collector.ids


def test_page_is_for_phones_paper_light_and_dark(page: str) -> None:
    for word in ("width=device-width", "prefers-color-scheme: dark", "@media print", "max-width: 40rem"):
        assert word in page


def test_page_shows_both_runs_with_clocks_chances_and_marks(page: str, tiny_dit: Run, tiny_gpt: Run) -> None:
    for run in (tiny_dit, tiny_gpt):
        assert run.title in page and str(run.clocks().rule) in page and str(run.clocks().memory) in page
    assert "copies by chance" in page and "25%" in page  # 4 training samples of 16 valid ones
    for mark, _, words in MARKS.values():
        assert mark in page and words in page
    assert all(metric["name"] in page for metric in tiny_dit.manifest["metrics"])


def test_colours_follow_the_theme(tiny_dit: Run) -> None:
    svg = themed_svg(draw_curves([curves_data(tiny_dit)]), salt="x")
    left = set(re.findall(r"#[0-9a-f]{6}\b", svg))
    assert not left & {day for day, _ in COLOURS.values()}
    assert "var(--rule)" in svg and "var(--memory)" in svg
    assert not left, f"colours outside the theme: {left}"


def test_curves_carry_the_stored_numbers(tiny_dit: Run) -> None:
    info, columns = curves_data(tiny_dit), tiny_dit.metrics()
    assert (
        columns["step"][0] == 0 and info.steps.tolist() == columns["step"][1:].tolist()
    )  # no place for 0 on a log axis
    assert np.array_equal(info.proportions[0].values, columns["sample_accuracy"][1:])
    assert np.array_equal(info.proportions[1].values, columns["sample_memorization"][1:])
    assert [level.value for level in info.chances] == [2.0**-4, 4 / 16]


def test_window_is_shaded_only_where_it_is_open(tiny_dit: Run) -> None:
    info = curves_data(tiny_dit)
    seen = Clocks(Onset(5, 20, "observed"), Onset(40, 60, "observed"))
    empty = Clocks(Onset(60, float("inf"), "right-censored"), Onset(5, 20, "observed"))

    def spans(clocks: Clocks) -> list[tuple[float, float]]:
        figure = draw_curves([type(info)(**{**vars(info), "clocks": clocks})])
        patches = [p for p in figure.axes[0].patches if hasattr(p, "get_x")]
        return [(round(p.get_x(), 3), round(p.get_x() + p.get_width(), 3)) for p in patches]

    assert (20, 40) in spans(seen)
    assert (20, 40) not in spans(empty) and (5, 20) in spans(empty)


def test_strip_marks_agree_with_the_rule_and_the_training_set(tiny_gpt: Run) -> None:
    info = strip_data(tiny_gpt)
    assert info.steps[-1].step == 60 and info.steps[0].step == 0
    train = {tuple(row) for row in tiny_gpt.evaluator.train.tolist()}
    for one in info.steps:
        assert sum(one.counts.values()) == 20
        for tile in one.tiles:
            flat = tuple(cell for row in tile.cells for cell in row)
            valid = all(flat[i] == flat[i + 1] for i in range(0, 8, 2))
            expected = "memorized" if flat in train else "valid-new" if valid else "broken"
            assert tile.state == expected


def test_states_between_symbols_come_first() -> None:
    valid, copied = torch.tensor([[True, True, False, True], [True, True, False, False]])
    outcome = Outcome(valid, copied, torch.tensor([0.9, 0.1, 0.1, 0.1]))
    states = [STATES[number] for number in states_of(outcome, threshold=0.5)]
    assert states == ["between", "memorized", "broken", "valid-new"]


@pytest.mark.parametrize(
    ("clocks", "words"),
    [
        (Clocks(Onset(5, 20, "observed"), Onset(40, 60, "observed")), "open from step 20 to step 40"),
        (Clocks(Onset(5, 20, "observed"), Onset(60, math.inf, "right-censored")), "open from step 20 to the end"),
        (Clocks(Onset(60, math.inf, "right-censored"), Onset(5, 20, "observed")), "the window is empty"),
        (Clocks(Onset(60, math.inf, "right-censored"), Onset(60, math.inf, "right-censored")), "window is unknown"),
        (
            Clocks(Onset(5, 20, "observed"), Onset(40, math.inf, "right-censored", suspected=(40, 60))),
            "copying is suspected since step 60, but not confirmed",
        ),
        (
            Clocks(Onset(60, math.inf, "right-censored"), Onset(0, math.inf, "right-censored", suspected=(5, 20))),
            "copying is suspected since step 20, but not confirmed",
        ),
        (
            Clocks(Onset(5, 20, "observed"), Onset(60, math.inf, "right-censored", suspected=(20, 40))),
            "At step 40, copies were above the threshold; later they were below it again.",
        ),
    ],
)
def test_verdict_in_words_and_drawn(tiny_dit: Run, clocks: Clocks, words: str) -> None:
    one = chapter(tiny_dit, 1)
    other = replace(one, curves=replace(one.curves, clocks=clocks))
    sentence = verdict_sentence(other)
    assert words in sentence
    assert ("end of the run" in sentence) == (clocks.window is not None and clocks.window[1] == math.inf)
    if clocks.window is not None:
        columns = tiny_dit.metrics()
        inside = (columns["step"] >= clocks.window[0]) & (columns["step"] <= clocks.window[1])
        assert f"{columns['valid_new'][inside].mean():.0%} of the samples are valid and new" in sentence
    drawn = [text.get_text() for text in draw_curves([other.curves]).axes[0].texts]
    assert any("copying suspected since" in text for text in drawn) == (clocks.suspected is not None)


def test_page_states_each_runs_own_thresholds(tiny_dit: Run, tiny_gpt: Run) -> None:
    strict = replace(chapter(tiny_dit, 1), curves=replace(curves_data(tiny_dit), clocks=thresholds(0.8, 0.4)))
    loose = replace(chapter(tiny_gpt, 2), curves=replace(curves_data(tiny_gpt), clocks=thresholds(0.5, 0.2)))
    text = " ".join(render([strict, loose], Together()).split())
    for valid, copies in ((80, 40), (50, 20)):
        assert f"learned above {valid}% valid samples, memory as begun above {copies}% copies" in text


def thresholds(rule: float, memory: float) -> Clocks:
    never = math.inf
    return Clocks(
        Onset(9, never, "right-censored", threshold=rule), Onset(9, never, "right-censored", threshold=memory)
    )


def test_only_pages_are_written(tiny_dit: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ends in \.html"):
        write_report([tiny_dit], tmp_path / "manifest.json")
    assert list(tmp_path.iterdir()) == []


def test_unwritable_place_is_refused(tiny_dit: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--out"):
        write_report([tiny_dit], tmp_path / "no" / "folder" / "x.html")
    with pytest.raises(UserError, match="--out"):
        write_report([tiny_dit], tmp_path)


def test_rules_with_several_kinds_of_pieces_show_each(tmp_path: Path) -> None:
    small = {"width": 16, "depth": 1, "heads": 2}
    change = {
        "rule": {"name": "sudoku", "block_rows": 2, "block_cols": 2},
        "training": {"steps": 4},
        "evaluation": {"samples": 100, "steps": [1, 2, 4], "loss_rows": 8},
        "data": {"n": 4},
        "model": small,
    }
    done = train(load_settings("demo-gpt", change), tmp_path / "run")
    info = curves_data(done)
    shown = {curve.label: curve.values for curve in info.proportions}
    for kind in ("row", "column", "block"):
        assert np.array_equal(shown[f"valid {kind}s"], done.metrics()[f"{kind}_accuracy"])
    draw_curves([info])


def test_milestones_within_the_steps_are_drawn_and_no_labels_collide(tiny_dit: Run) -> None:
    steps = np.geomspace(10, 10_000, 30)
    expected = {"P*_1": 9, "P*_2": 100, "P*_3": 120, "P*_4": 120, "P*_5": 150, "P*_6": 900, "P*": 20_000}
    found = milestones_within(expected, steps)
    assert [(one.label, one.step) for one in found] == [
        *(("P*_2", 100.0), ("P*_3 = P*_4", 120.0), ("P*_5", 150.0), ("P*_6", 900.0)),
    ]
    clocks = Clocks(Onset(80, 130, "observed"), Onset(110, 160, "observed"))
    curve = Curve("valid", "rule", np.linspace(0, 1, 30))
    info = replace(
        curves_data(tiny_dit), steps=steps, proportions=(curve,), losses=(curve,), milestones=found, clocks=clocks
    )
    figure = draw_curves([info, info])
    FigureCanvasAgg(figure).draw()
    axis = figure.axes[0]
    dashed = {line.get_xdata()[0] for line in axis.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 0.8}
    assert dashed == {100.0, 120.0, 150.0, 900.0}
    titles = [text for text in (axis.title, axis._left_title) if text.get_text()]
    boxes = [text.get_window_extent() for text in [*axis.texts, *titles]]
    assert len(boxes) == 7  # two clocks, four milestones, the title
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other), (one, other)


def test_rules_without_a_theory_have_no_milestones(tiny_dit: Run, page: str) -> None:
    assert curves_data(tiny_dit).milestones == () and "when theory expects" not in page
    one = chapter(tiny_dit, 1)
    marked = replace(one, curves=replace(one.curves, milestones=(Milestone("P*_1", 30.0),)))
    assert "(P*_1: step 30)" in " ".join(render([marked], Together()).split())
