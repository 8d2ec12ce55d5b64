"""The live page in a real browser: curves grow without a reload, values on hover, dark, phones, axe; static copies."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_runs import GrowingRun, served

import twoclocks as tc
from twoclocks.report.live.site import write_site
from twoclocks.runs import Run
from twoclocks.store.lock import WriterLock

MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture
def runs(tmp_path: Path, tiny_gpt: Run, tiny_dit: Run) -> Path:
    """A finished run, and one whose name is markup."""
    shutil.copytree(tiny_dit.path, tmp_path / "runs" / "dit")
    shutil.copytree(tiny_gpt.path, tmp_path / "runs" / MARKUP)
    return tmp_path / "runs"


@pytest.fixture
def growing(runs: Path, tiny_gpt: Run) -> GrowingRun:
    return GrowingRun(tiny_gpt, runs / "growing", evaluations=2)


@pytest.fixture
def address(runs: Path, growing: GrowingRun) -> Iterator[str]:
    """Asked for before the tab, which is then closed first: a page whose server is gone says so in the console."""
    with served(runs) as found:
        yield found


def open_run(tab: Any, address: str, name: str) -> None:
    """Open the table, then the page of a run by its link."""
    tab.goto(address)
    tab.get_by_role("link", name=name).click()
    tab.locator("#sample-words").filter(has_not_text="…").wait_for()


def points(tab: Any) -> int:
    """Points of the first curve."""
    return len(re.findall("[ML]", tab.locator(".frame path.curve").first.get_attribute("d")))


def wait_for(tab: Any, condition: Callable[[], bool]) -> None:
    for _ in range(200):
        if condition():
            return
        tab.wait_for_timeout(50)
    raise AssertionError("it did not happen within 10 s")


def has_no_horizontal_scroll(tab: Any) -> bool:
    return bool(tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_a_curve_grows_without_a_reload(address: str, tab: Any, growing: GrowingRun) -> None:
    open_run(tab, address, "growing")
    tab.evaluate("window.sameDocument = true")
    assert points(tab) == 1  # step 0 has no place on a log axis
    assert tab.locator("#state").inner_text() == "unfinished"
    with WriterLock(growing.path):
        growing.add(3)
        wait_for(tab, lambda: points(tab) == 4)
        wait_for(tab, lambda: tab.locator("#state").inner_text() == "running")
        assert "60 of 60" in tab.locator("#facts").inner_text()
    growing.end()
    wait_for(tab, lambda: tab.locator("#state").inner_text() == "finished")
    wait_for(tab, lambda: tab.locator("#sample-words").inner_text().startswith("Step 60"))
    assert tab.evaluate("window.sameDocument") is True
    assert tab.locator("#samples .tile").count() == 16


def test_states_are_seen_in_table_and_page(address: str, tab: Any, growing: GrowingRun) -> None:
    tab.goto(address)
    row = tab.locator("tbody tr", has=tab.get_by_role("link", name="growing"))
    wait_for(tab, lambda: row.locator(".state").inner_text() == "unfinished")
    growing.directory.set_status("running", attempts=[{"from_step": 0}, {"from_step": 5}])
    with WriterLock(growing.path):
        wait_for(tab, lambda: row.locator(".state").inner_text() == "running")
        wait_for(tab, lambda: "resumed from step 5" in row.locator(".state").get_attribute("title"))
    row.get_by_role("link").click()
    tab.locator(".frame path.curve").first.wait_for(state="attached")
    path = growing.directory.journal.path
    path.write_bytes(path.read_bytes().replace(b'"step": 5', b'"step": 6'))
    wait_for(tab, lambda: tab.locator("#state").inner_text() == "damaged")
    assert "line 2 is damaged" in tab.locator("#note").inner_text()
    assert tab.locator("#decision").is_hidden()  # rows before the damage decide nothing
    shutil.rmtree(growing.path)
    wait_for(tab, lambda: tab.locator("#state").inner_text() == "deleted")


def test_hover_and_arrow_keys_show_values(address: str, tab: Any, tiny_dit: Run) -> None:
    open_run(tab, address, "dit")
    chart = tab.locator(".frame").first
    box = chart.bounding_box()
    tab.mouse.move(box["x"] + box["width"] - 14, box["y"] + 80)  # the last step
    copies = tiny_dit.metrics()["sample_memorization"][-1]
    shown = chart.locator(".tip").inner_text()
    assert "step 60" in shown and f"copies {float(f'{copies:.3g}'):g}" in shown
    tab.mouse.move(0, 0)
    assert chart.locator(".tip").is_hidden()
    chart.locator("svg").focus()
    for _ in range(2):
        tab.keyboard.press("ArrowLeft")
    assert "step 40" in chart.locator(".tip").inner_text()


def test_sort_filter_and_hostile_names(address: str, tab: Any) -> None:
    tab.goto(address)
    names = tab.locator("tbody td:first-child")
    wait_for(tab, lambda: names.count() == 3)
    assert any(MARKUP in name for name in names.all_inner_texts()) and tab.locator("tbody img").count() == 0
    tab.get_by_role("button", name="progress").click()
    assert "growing" in names.first.inner_text()  # 5 of 60 steps
    tab.get_by_role("button", name="progress").click()
    assert "growing" in names.last.inner_text()
    assert tab.locator("th[aria-sort=descending]").inner_text().startswith("progress")
    tab.get_by_label("Filter").fill("dit")
    assert names.count() == 1 and tab.locator("#count").inner_text() == "1 of 3"
    tab.get_by_label("Filter").fill("")
    tab.get_by_label("State").select_option("unfinished")
    assert names.count() == 1 and "growing" in names.first.inner_text()
    open_run(tab, address, "onerror")
    assert MARKUP in tab.locator("h1").inner_text() and tab.locator("h1 img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_layouts_and_accessibility(address: str, tab: Any, axe: Any, scheme: str, runs: Path) -> None:
    rule = tc.rules.create("parity", length=36, group=3)
    monitor = tc.Monitor(rule=rule, train=tc.data.training_set(rule, n=32, seed=0))
    for step in (10, 20, 40):
        monitor.observe(step, rule.sample(200, seed=step))
    monitor.save(runs / "my-loop.json")
    tab.emulate_media(color_scheme=scheme)
    tab.goto(address)
    wait_for(tab, lambda: tab.locator("tbody tr").count() == 4)
    grounds = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (grounds == "rgb(254, 254, 254)") == (scheme == "light")
    for name in ("", "dit", "my-loop"):
        if name:
            open_run(tab, address, name)
        for width in (1280, 360):
            tab.set_viewport_size({"width": width, "height": 800})
            tab.wait_for_timeout(100)
            assert has_no_horizontal_scroll(tab), (name, width)
            assert axe() == [], (name, width)
    assert "Go on: rule learned at step 40" in tab.locator("#verdict").inner_text()


def test_a_static_copy_opens_from_disk(tab: Any, runs: Path, tmp_path: Path) -> None:
    tab.goto(write_site([runs], tmp_path / "site").as_uri())
    assert tab.locator("tbody tr").count() == 2
    assert "as it was when this page was written" in tab.locator("#connection").inner_text()
    tab.get_by_role("link", name="dit").click()
    assert points(tab) == 4 and tab.locator("#samples .tile").count() == 16


def test_an_empty_folder_says_so(tab: Any, tmp_path: Path, tiny_gpt: Run) -> None:
    (tmp_path / "empty").mkdir()
    with served(tmp_path / "empty") as address:
        tab.goto(address)
        assert tab.locator("#empty").inner_text().startswith("No runs yet")
        GrowingRun(tiny_gpt, tmp_path / "empty" / "first", evaluations=1)
        wait_for(tab, lambda: tab.locator("tbody tr").count() == 1)
        tab.goto("about:blank")
