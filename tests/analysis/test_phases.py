"""PhaseDiagram of run directories whose clocks are known, as data and as a picture."""

from __future__ import annotations

import html
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from twoclocks.analysis.phases import PhaseDiagram, earliest, natural, phase_diagram, phases_between
from twoclocks.clocks import Clocks, Onset
from twoclocks.core.errors import UserError
from twoclocks.core.theme import COLOURS, themed_svg
from twoclocks.report.page import render
from twoclocks.report.phases import VERDICTS, draw_phases, draw_verdicts, words
from twoclocks.report.together import Together, phase_chapter
from twoclocks.runs import Run, load_settings
from twoclocks.testing.runs import write_run

GRAMMAR = {"rule": {"name": "rhm", "depth": 3, "branching": 2, "vocabulary": 16, "synonyms": 4}}
LAYERS = ("layer_1", "layer_2", "layer_3")
NEVER = math.inf


def rise(steps: Any, tau: float, level: float) -> Any:
    """Crosses ``level`` at ``tau``, steeply."""
    return 1 / (1 + (1 / level - 1) * (np.maximum(np.asarray(steps, dtype=float) / tau, 1e-9)) ** -12.0)


def known(folder: Path, n: int, rule: float, memory: float, layers: tuple[float, ...] = (), **change: Any) -> Run:
    """A run that learns the rule, its layers, and copies, each at a time that is given."""
    base: dict[str, Any] = GRAMMAR if layers else {"rule.length": 24, "rule.group": 2}
    base = {**base, "training.steps": 20_000, "evaluation.samples": 2048, "evaluation.evaluations": 60}
    settings = load_settings("demo-gpt", {**base, "data.n": n, **change})
    steps = np.array(settings.schedule, dtype=float)
    level = settings.clocks.rule_threshold
    columns = {
        "sample_accuracy": rise(steps, rule, level),
        "sample_memorization": rise(steps, memory, 0.1),
        **{f"{kind}_accuracy": rise(steps, at, level) for kind, at in zip(LAYERS, layers, strict=False)},
    }
    return write_run(folder / f"run-{len(list(folder.iterdir()))}", settings, columns)


@pytest.fixture
def sweep(tmp_path: Path) -> list[Run]:
    """As P2 finds: few samples are copied before the deep layers are learned, many are not."""
    return [
        known(tmp_path, 16_384, 3000, NEVER, (100, 700, 3000)),
        known(tmp_path, 256, 900, 500, (100, 600, 900)),
        known(tmp_path, 4096, 3000, 9000, (100, 700, 3000)),
        known(tmp_path, 1024, NEVER, 2000, (100, 700, NEVER)),
    ]


def at(info: PhaseDiagram, n: int, step: float) -> tuple[str, tuple[str, ...]]:
    (run,) = [one for one in info.runs if one.n == n]
    (phase,) = [phase for phase in run.phases if phase.begin < step <= phase.end]
    return phase.name, phase.learned


def perhaps(info: PhaseDiagram, n: int, step: float) -> tuple[str, ...]:
    (run,) = [one for one in info.runs if one.n == n]
    return next(phase.perhaps for phase in run.phases if phase.begin < step <= phase.end)


def test_phases_are_those_that_were_written(sweep: list[Run]) -> None:
    info = phase_diagram(sweep)
    assert [run.n for run in info.runs] == [256, 1024, 4096, 16_384]  # in order, whatever that of the runs
    for run in info.runs:
        assert run.phases[0].begin == run.steps[0] == 10 and run.phases[-1].end == run.steps[1] == 20_000
        assert all(one.end == other.begin for one, other in itertools.pairwise(run.phases))
        assert at(info, run.n, 40) == ("nothing yet", ())
        assert at(info, run.n, 100) == ("not certain", ())
        assert at(info, run.n, 200) == ("partial generalization", ("layer_1",))
        assert run.boundaries["partial generalization"].lower < 100 <= run.boundaries["partial generalization"].upper
    for n in (4096, 16_384):
        assert at(info, n, 1500) == ("partial generalization", ("layer_1", "layer_2"))
        assert at(info, n, 3000)[0] == "not certain"
        assert at(info, n, 5000) == ("generalization", ())
        assert at(info, n, 700) == ("partial generalization", ("layer_1",)) and perhaps(info, n, 700) == ("layer_2",)
        assert perhaps(info, n, 1500) == ()
    assert at(info, 4096, 9000)[0] == "not certain" and at(info, 4096, 15_000) == ("memorization", ())
    assert at(info, 16_384, 19_000) == ("generalization", ())
    assert at(info, 256, 2000) == ("memorization", ())  # valid by then, but as copies
    assert at(info, 1024, 1300) == ("partial generalization", ("layer_1", "layer_2"))
    assert at(info, 1024, 10_000) == ("memorization", ())


def test_what_is_said_and_written(sweep: list[Run]) -> None:
    info = phase_diagram(sweep)
    copies, partial, both, long = info.sentences()
    assert copies.startswith("N = 256: copies (step ") and "before the rule; layer 1 learned before that" in copies
    assert copies.endswith("samples became valid later, as copies only.")
    assert "layer 1 and layer 2 learned before that" in partial and "; the rule not by 20,000" in partial
    begin, end = info.runs[2].clocks.window or (0, 0)
    assert 3000 < begin < 3600 and 7500 < end < 9000
    assert both.startswith(f"N = 4,096: window from step {begin:,.0f} to step {end:,.0f} (τ_rule ")
    assert "at least to step 20,000" in long and "τ_mem not by 20,000" in long
    plain = json.loads(json.dumps(info.as_json(), allow_nan=False))
    assert [run["verdict"] for run in plain["runs"]] == ["empty", "empty", "open", "open"]
    assert [run["learned_by_memory"] for run in plain["runs"]] == [True, False, False, False]
    assert "generalization" not in plain["runs"][0]["boundaries"]
    assert plain["runs"][3]["boundaries"]["memorization"]["upper"] is None
    assert plain["runs"][2]["log10_width"] == pytest.approx(math.log10(3), abs=0.05)
    assert plain["runs"][3]["width_is_lower_bound"] and plain["runs"][3]["log10_width"] < math.log10(20_000 / 3000)
    assert [cell["verdict"] for cell in plain["cells"]] == ["empty", "empty", "open", "open"]


def test_rules_of_one_kind_have_no_partial_phase(tmp_path: Path) -> None:
    info = phase_diagram([known(tmp_path, 64, 200, 2000), known(tmp_path, 128, 200, 4000)])
    names = [[phase.name for phase in run.phases] for run in info.runs]
    assert names == [["nothing yet", "not certain", "generalization", "not certain", "memorization"]] * 2
    assert all(not run.clocks.parts and "partial generalization" not in run.boundaries for run in info.runs)


def phases(rule: Onset, memory: Onset, **parts: Onset) -> list[tuple[str, float, float]]:
    found = phases_between(Clocks(rule, memory, parts=parts), 10, 1000)
    return [(phase.name, phase.begin, phase.end) for phase in found]


def test_intervals_that_overlap_leave_only_what_is_sure() -> None:
    assert phases(Onset(100, 200, "observed"), Onset(150, 300, "observed")) == [
        ("nothing yet", 10, 100),
        ("not certain", 100, 300),
        ("memorization", 300, 1000),
    ]
    assert phases(Onset(0, 50, "left-censored"), Onset(700, NEVER, "right-censored")) == [
        ("not certain", 10, 50),
        ("generalization", 50, 700),
        ("not certain", 700, 1000),
    ]
    assert phases(Onset(500, 600, "observed"), Onset(100, 200, "observed")) == [
        ("nothing yet", 10, 100),
        ("not certain", 100, 200),
        ("memorization", 200, 1000),
    ]
    never = Onset(1000, NEVER, "right-censored")
    assert phases(never, never) == [("nothing yet", 10, 1000)]
    assert phases(never, never, row=Onset(100, 200, "observed"), column=Onset(0, NEVER, "right-censored")) == [
        ("not certain", 10, 200),  # of columns nothing is sure
        ("partial generalization", 200, 1000),
    ]


def test_the_first_of_several_onsets() -> None:
    first = earliest([Onset(100, 400, "observed"), Onset(50, NEVER, "right-censored"), Onset(200, 300, "observed")])
    assert (first.lower, first.upper, first.status) == (50, 300, "observed")
    assert earliest([Onset(5, NEVER, "right-censored")] * 2).status == "right-censored"
    assert earliest([Onset(0, 9, "left-censored"), Onset(5, 10, "observed")]).status == "left-censored"


@pytest.fixture
def grid(tmp_path: Path) -> list[Run]:
    """Parity of growing groups takes longer, up to never; two seeds a cell, one of which differs."""
    rule = {2: 200.0, 3: 1500.0, 6: NEVER, 12: NEVER}
    return [
        known(
            tmp_path,
            n,
            rule[group] if (group, n, seed) != (3, 64, 1) else NEVER,
            40.0 * n,
            **{"rule.group": group, "training.seed": seed},
        )
        for group in (12, 2, 6, 3)
        for n in (256, 64, 128)
        for seed in (0, 1)
    ]


def test_cells_of_two_settings(grid: list[Run]) -> None:
    info = phase_diagram(grid)
    assert info.groups == tuple(f"rule.group {group}" for group in (2, 3, 6, 12)) and info.sizes == (64, 128, 256)
    cells = {(cell.group, cell.n): cell for cell in info.cells()}
    assert len(cells) == 12 and all(cell.runs == 2 for cell in cells.values())
    two, mixed, empty = cells["rule.group 2", 256], cells["rule.group 3", 64], cells["rule.group 6", 128]
    assert two.verdict == "open" and two.open == 2 and not two.at_least
    assert two.width == pytest.approx(math.log10(40 * 256 / 200), abs=0.1) and words(two).startswith("open\n5")
    assert mixed.verdict == "mixed" and mixed.open == 1 and words(mixed).startswith("open 1 of 2\n1.")
    assert empty.verdict == "empty" and empty.width is None and words(empty) == "empty"
    assert info.sentences()[0].startswith("rule.group 2, N = 64 (training.seed 0, data.seed 0): window")


def cut_short(folder: Path, n: int, copied: list[float], seed: int = 0) -> Run:
    """A run that learns the rule at step 200; ``copied`` are its last copy rates, all before are 0."""
    base = {"rule.length": 24, "rule.group": 2, "training.steps": 20_000, "evaluation.samples": 2048}
    change = {**base, "evaluation.evaluations": 60, "data.n": n, "training.seed": seed}
    settings = load_settings("demo-gpt", change)
    steps = np.array(settings.schedule, dtype=float)
    rates = np.zeros(len(steps))
    rates[-len(copied) :] = copied
    columns = {"sample_accuracy": rise(steps, 200, settings.clocks.rule_threshold), "sample_memorization": rates}
    return write_run(folder / f"run-{len(list(folder.iterdir()))}", settings, columns)


def test_suspected_copying_is_neither_open_nor_empty(tmp_path: Path) -> None:
    runs = [
        cut_short(tmp_path, 64, [0.62]),
        cut_short(tmp_path, 128, [0.4, 0.62]),
        cut_short(tmp_path, 256, [0.6, 0.0]),
    ]
    info = phase_diagram([*runs, known(tmp_path, 128, 200, NEVER, **{"training.seed": 1})])
    last, two, fell = [run for run in info.runs if run.clocks.suspected or run.clocks.excursion]
    cells = {cell.n: cell for cell in info.cells()}
    assert [cells[n].verdict for n in (64, 128, 256)] == ["suspected", "mixed", "open"]
    assert (cells[64].open, cells[64].suspected, cells[64].width, words(cells[64])) == (0, 1, None, "suspected")
    assert words(cells[128]).startswith("open 1 of 2\nsuspected 1")
    assert two.phases[-1].name == "copying suspected" and two.phases[-1].begin == two.clocks.suspected
    assert last.phases[-1].name == "not certain"  # no step follows the one evaluation that is above
    for run in (last, two, fell):  # the window ends before the copies
        (generalization,) = [phase for phase in run.phases if phase.name == "generalization"]
        assert run.clocks.window == (generalization.begin, generalization.end)
    assert (
        fell.width == pytest.approx(math.log10(fell.clocks.copy_free_until / fell.clocks.rule.upper)) and fell.at_least
    )
    assert "copying suspected since step 20,000, unconfirmed; window" in last.sentence()
    assert "later below it again" in fell.sentence() and "at least to" not in fell.sentence()
    assert info.as_json()["runs"][0]["suspected"] == 20_000
    figure = draw_phases(info)
    FigureCanvasAgg(figure).draw()
    assert len([line for line in figure.axes[0].lines if not isinstance(line.get_marker(), str)]) == 2
    assert "first copies above the threshold" in [text.get_text() for text in figure.legends[0].get_texts()]
    FigureCanvasAgg(draw_verdicts(info)).draw()
    assert VERDICTS["suspected"] not in {VERDICTS[other] for other in VERDICTS if other != "suspected"}


def test_drawing_shows_what_is_sure(sweep: list[Run]) -> None:
    info = phase_diagram(sweep)
    figure = draw_phases(info)
    FigureCanvasAgg(figure).draw()
    (axis,) = figure.axes
    bars = {(round(bar.get_x(), 3), round(bar.get_x() + bar.get_width(), 3)) for bar in axis.patches}
    assert bars == {(round(p.begin, 3), round(p.end, 3)) for run in info.runs for p in run.phases}
    assert [label.get_text() for label in axis.get_yticklabels()] == ["256", "1,024", "4,096", "16,384"]
    assert list(axis.get_yticks()) == sorted(axis.get_yticks())
    hatched = [bar for bar in axis.patches if bar.get_hatch()]
    assert len(hatched) == sum(p.name == "not certain" or len(p.perhaps) > 0 for run in info.runs for p in run.phases)
    (crosses,) = [line for line in axis.lines if line.get_marker() == "x"]
    assert crosses.get_xdata()[0] == pytest.approx(900, rel=0.1)
    assert len([line for line in axis.lines if line.get_marker() == ">"]) == 1  # only the longest window goes on
    assert len(figure.legends[0].get_texts()) == 7


def test_drawings_follow_the_theme_and_their_labels_do_not_collide(grid: list[Run]) -> None:
    info = phase_diagram(grid)
    for figure in (draw_phases(info), draw_verdicts(info)):
        FigureCanvasAgg(figure).draw()
        for axis in figure.axes:
            shown = [
                text for text in (*axis.texts, *axis.get_xticklabels(), *axis.get_yticklabels()) if text.get_text()
            ]
            boxes = [text.get_window_extent() for text in shown if text.get_visible()]
            low, high = axis.get_xlim()
            assert high > low
            for one, other in itertools.combinations(boxes, 2):
                assert not one.overlaps(other), (one, other)
        svg = themed_svg(figure, salt="x")
        assert not any(day in svg for day, _ in COLOURS.values()) and "var(--new)" in svg


def test_the_page_has_the_chapter_only_for_runs_of_several_sizes(sweep: list[Run], tmp_path: Path) -> None:
    found = phase_chapter(sweep)
    assert found is not None and found.verdicts == "" and "<svg role" in found.figure
    assert phase_chapter(sweep[:1]) is None and phase_chapter([]) is None
    other = known(tmp_path, 64, 200, 2000)
    assert phase_chapter([sweep[0], other]) is None  # they differ in more than their size
    both = phase_chapter([*sweep, other])
    assert both is not None and both.verdicts
    for chapter, figures in ((found, 1), (both, 2)):
        page = " ".join(render([], Together(phases=chapter)).split())
        assert page.count("<svg") == figures and "Phases: what is learned" in page
        assert all(html.escape(sentence) in page for sentence in chapter.info.sentences())
    assert "Phases: what is learned" not in render([], Together())


def test_runs_without_evaluations_are_left_out(tmp_path: Path, sweep: list[Run]) -> None:
    empty = write_run(tmp_path / "none", sweep[0].settings, {"sample_accuracy": []}, finished=False)
    info = phase_diagram([*sweep, empty])
    assert len(info.runs) == 4 and "holds no evaluation" in info.left_out[0]
    with pytest.raises(UserError, match="holds no evaluation"):
        phase_diagram([empty])


def test_numbers_in_labels_sort_as_numbers() -> None:
    labels = ["rule.group 12", "rule.group 2", "model.name gpt", "rule.group 3", "lr 0.5", "lr 0.25"]
    assert sorted(labels, key=natural) == [
        *("lr 0.25", "lr 0.5", "model.name gpt", "rule.group 2", "rule.group 3", "rule.group 12"),
    ]
