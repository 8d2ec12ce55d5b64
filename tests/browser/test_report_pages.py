"""Static pages in a real browser: they open from disk, show values under the pointer, and are readable everywhere.

The fixture ``tab`` fails every test whose page asks another machine for something, or writes to the console.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from many_runs import many_cells, write_cells
from small_runs import SMALL_MODEL, TINY

from twoclocks.analysis.twins import compare_twins
from twoclocks.cli import main
from twoclocks.core.theme import COLOURS
from twoclocks.dissection.execution import choose_views, dissect_run
from twoclocks.papers import page as papers_page
from twoclocks.papers import two_clocks
from twoclocks.papers.ledger import claim_rows, drawn_figures
from twoclocks.papers.reproduction import Reproduction, entries
from twoclocks.papers.scales import GPU
from twoclocks.report.page import MOST_OPEN, write_report
from twoclocks.runs import Run, load_run, load_settings
from twoclocks.runs import run as train

assert two_clocks.__doc__  # importing it registers figures and claims
CAMPAIGN = Path(__file__).parents[2] / "results" / "campaign"
DESKTOP, PHONE = {"width": 1180, "height": 820}, {"width": 360, "height": 780}
KINDS = ("run", "cells", "overview", "twins", "dissection", "text", "images", "reproduction")
CHECKPOINTS = [0, *range(3, 70, 3)]  # as many as the demo has
Pages = Callable[[str], Path]


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory, tiny_dit: Run, tiny_gpt: Run, twin_digits: tuple[Run, Run]
) -> Iterator[Pages]:
    """One page of each kind, written when it is asked for."""
    root = tmp_path_factory.mktemp("pages")
    patch = pytest.MonkeyPatch()
    patch.setattr(papers_page, "baseline_rows", lambda records: [])  # they take ten seconds, and are a table
    write = {
        "run": lambda path: write_report([tiny_dit, tiny_gpt], path),
        "cells": lambda path: write_report(cells(root)[::5], path),
        "overview": lambda path: write_report(cells(root), path),
        "twins": lambda path: write_report(twin_digits, path, twins=[compare_twins(*twin_digits)]),
        "dissection": lambda path: write_report([dissected(root)], path),
        "text": lambda path: write_report([text_run(root)], path),
        "images": lambda path: write_report([twin_digits[0]], path),
        "reproduction": reproduction_page,
    }
    yield cache(lambda kind: write[kind](root / f"{kind}.html"))
    patch.undo()


@cache
def cells(root: Path) -> list[Run]:
    """Twenty cells of a sweep, one of which has a page of its own."""
    plan = many_cells(seeds=2)
    write_cells(root / "sweep", plan)
    found = [load_run(root / "sweep" / "cells" / cell.key) for cell in plan.cells]
    assert main(["report", str(found[0].path)]) == 0
    return found


@cache
def dissected(root: Path) -> Run:
    """A DiT with the demo's number of checkpoints, and all views that it has."""
    small = {"steps": CHECKPOINTS, "keep_weights": len(CHECKPOINTS), "samples": 100, "loss_rows": 16}
    training = {**TINY["training"], "steps": CHECKPOINTS[-1]}
    change = {"model": SMALL_MODEL, "objective": {"sampler_steps": 3}, "evaluation": small, "training": training}
    settings = load_settings("demo", {**TINY, **change})
    done = train(settings, root / "dissected")
    dissect_run(done, choose_views(["raster", "field"], {}))
    return done


@cache
def text_run(root: Path) -> Run:
    evaluation = {"samples": 64, "evaluations": 5, "loss_rows": 16, "copy_run": 4, "prompts": 0}
    change = {"data.n": 4, "rule.length": 12, "model": SMALL_MODEL, "evaluation": evaluation}
    training = {"steps": 120, "batch": 8, "learning_rate": 1e-2}
    return train(load_settings("text-small", {**change, "training": training, "clocks.sustain": 1}), root / "text")


def reproduction_page(path: Path) -> Path:
    place, chosen = Reproduction(GPU, path.parent / "gpu", CAMPAIGN), entries(["fig2", "A6-gpt"])
    records = place.records()
    return papers_page.write_page(path, GPU, records, claim_rows(records, chosen), drawn_figures(records, chosen))


def no_scroll(tab: Any) -> bool:
    """Whether the page is as wide as the window; tables and figures may scroll inside."""
    return bool(tab.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize("kind", KINDS)
def test_pages_fit_every_screen_and_are_accessible(kind: str, pages: Pages, tab: Any, axe: Any) -> None:
    tab.set_viewport_size(DESKTOP)
    tab.goto(pages(kind).as_uri())
    assert tab.locator("h1").is_visible() and no_scroll(tab)
    assert axe() == []
    tab.emulate_media(color_scheme="dark")
    tab.set_viewport_size(PHONE)
    assert no_scroll(tab)
    assert axe() == []
    targets = tab.locator("a[href^='#']").evaluate_all("ones => ones.map(one => one.hash.slice(1))")
    ids = set(tab.evaluate("[...document.querySelectorAll('[id]')].map(one => encodeURI(one.id))"))
    assert targets and set(targets) <= ids


def test_the_pointer_shows_the_stored_values(pages: Pages, tab: Any, tiny_dit: Run) -> None:
    tab.set_viewport_size({"width": 1180, "height": 2600})
    tab.goto(pages("run").as_uri())
    columns, tip = tiny_dit.metrics(), tab.locator(".tip").first
    assert not tip.is_visible()
    shown = {
        "run1-panel0": {
            "valid (rule accuracy)": "sample_accuracy",
            "copies of training samples": "sample_memorization",
        },
        "run1-panel1": {"training set": "loss_train", "valid, unseen": "loss_held_out"},
    }
    limits = tab.evaluate("JSON.parse(document.querySelector('script.values').textContent).map(p => p.x)")
    for (panel, names), (low, high, log) in zip(shown.items(), limits, strict=True):
        box = tab.locator(f"#{panel}").bounding_box()
        for k, step in enumerate(columns["step"]):
            if step == 0:
                continue
            assert log
            at = math.log(step / low) / math.log(high / low)
            tab.mouse.move(box["x"] + box["width"] * at + 2, box["y"] + box["height"] / 2)
            text = tip.inner_text()
            assert f"training step {step:g}" in text
            for name, column in names.items():
                said = next(line for line in text.split("\n") if line.strip().startswith(f"{name}:")).split(":")[1]
                assert float(said.replace(",", "")) == pytest.approx(columns[column][k], rel=1e-3)
    tab.mouse.move(2, 2)
    assert not tip.is_visible()


def test_films_play_in_the_colours_of_the_page(pages: Pages, tab: Any) -> None:
    tab.emulate_media(color_scheme="dark")
    tab.goto(pages("dissection").as_uri())
    film = tab.locator(".film").nth(1)
    slider, frame = film.locator("input"), film.locator(".frame")
    last = frame.inner_html()
    assert film.locator("output").inner_text() == f"last of {len(CHECKPOINTS)} checkpoints"
    slider.fill("0")
    film.locator("output", has_text="step 0").wait_for()
    assert frame.inner_html() != last and frame.locator("svg").count() == 1
    ink = "rgb({}, {}, {})".format(*(int(COLOURS["ink"][1][k : k + 2], 16) for k in (1, 3, 5)))
    assert ink in frame.locator("text").evaluate_all("ones => ones.map(one => getComputedStyle(one).fill)")
    film.locator("button").click()
    film.locator("output", has_text=f"step {CHECKPOINTS[2]}").wait_for()
    assert film.locator("button").inner_text() == "Stop"
    film.locator("button").click()
    assert film.locator("button").inner_text() == "Play"
    slider.fill(str(len(CHECKPOINTS) - 1))
    film.locator("output", has_text=f"step {CHECKPOINTS[-1]}").wait_for()
    assert frame.locator("svg").inner_html() == last[last.index(">") + 1 : last.rindex("</svg>")]
    ids = tab.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))


def test_a_page_with_the_checkpoints_of_the_demo_is_small_and_paints_at_once(pages: Pages, tab: Any) -> None:
    page = pages("dissection")
    assert page.stat().st_size < 1_000_000  # the demo's has two runs and two more views: below 1.5 MB
    tab.goto(page.as_uri())
    paint = tab.evaluate("performance.getEntriesByType('paint').map(one => one.startTime)")
    assert max(paint, default=0) < 2000  # in ms; under a second where nothing else runs (benchmarks/page_size.py)


def test_everything_is_there_without_a_script(pages: Pages, browser: Any, tiny_dit: Run) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=PHONE)
    page = context.new_page()
    page.goto(pages("run").as_uri())
    table = page.locator("table.values").first
    assert not table.is_visible()  # folded
    page.locator("summary", has_text="The values of these curves").first.click()
    columns = tiny_dit.metrics()
    texts = table.locator("td").all_inner_texts()
    for name in ("sample_accuracy", "sample_memorization", "loss_train", "loss_held_out"):
        assert all(f"{value:.4g}" in texts for value in columns[name][1:]), name
    page.goto(pages("dissection").as_uri())
    assert page.locator(".film .frame svg").count() == 2 and not page.locator(".controls").count()
    assert all(one.is_visible() for one in page.locator("figure svg[role=img]").all())
    labels = [one.get_attribute("aria-label") for one in page.locator("figure svg[role=img]").all()]
    assert all(any(letter.isdigit() for letter in label) for label in labels), "an alternative without numbers"
    context.close()


def test_paper_shows_what_is_folded_and_no_controls(pages: Pages, tab: Any) -> None:
    tab.goto(pages("dissection").as_uri())
    tab.emulate_media(media="print")
    assert tab.locator("details:not([open])").count() > 0
    for folded in tab.locator("details:not([open]) table").all():
        assert folded.evaluate("one => one.checkVisibility()")
    assert not any(one.is_visible() for one in tab.locator(".controls, nav").all())
    assert tab.pdf(format="A4").startswith(b"%PDF")


def test_contents_lead_into_folded_runs(pages: Pages, tab: Any) -> None:
    tab.goto(pages("cells").as_uri())
    runs = tab.locator("details.run")
    assert runs.count() > MOST_OPEN and not any(one.get_attribute("open") is not None for one in runs.all())
    tab.locator("nav.contents a", has_text="metrics").nth(2).click()
    assert runs.nth(2).get_attribute("open") is not None and runs.nth(1).get_attribute("open") is None
    assert tab.locator("#run-3-metrics").is_visible()
    assert "data.n" in tab.locator("details.run h2").first.inner_text()  # named by its settings, not by its folder


def test_the_table_of_a_sweep_leads_to_the_pages_of_its_runs(pages: Pages, tab: Any) -> None:
    tab.goto(pages("overview").as_uri())
    heads = tab.locator("#runs ~ details th").all_inner_texts()
    assert heads[:3] == ["data.n", "training.learning_rate", "training.seed"] and heads[-1] == "folder"
    links = tab.locator("#runs ~ details td a")
    assert links.count() == 1
    links.first.click()
    tab.locator("details.run").first.wait_for()
    assert tab.url.endswith("-report.html")


def test_texts_are_marked_where_they_copy(pages: Pages, tab: Any) -> None:
    tab.goto(pages("text").as_uri())
    rows = tab.locator("table.texts").last.locator("tr:has(td)")
    assert rows.count() == 8
    for row in rows.all():
        sample, original = (cell.locator("mark").all_inner_texts() for cell in row.locator("td").all())
        assert sample == original and sample
