"""A real browser for tests of pages: Debian's chromium, driven by Playwright; without one these tests are skipped.

Nothing may be loaded from outside and nothing may be written to the console: both fail the test that opened the page.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(__file__).parents[1] / ".venv" / "axe" / "axe.min.js"  # written by `make browser`
LOCAL = ("file:", "data:", "blob:", "about:", "http://127.0.0.1:", "http://localhost:")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless browser, one per test process."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser is installed ({', '.join(NAMES)}); `make browser` says how")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """An empty tab. At the end: no message in the console, no request that leaves this machine."""
    context = browser.new_context()
    page = context.new_page()
    messages: list[str] = []
    outside: list[str] = []
    page.on("console", lambda one: messages.append(f"{one.type}: {one.text}") if one.type != "log" else None)
    page.on("pageerror", lambda one: messages.append(str(one)))
    page.on("request", lambda one: outside.append(one.url) if not one.url.startswith(LOCAL) else None)
    yield page
    context.close()
    assert not outside, f"requests that leave this machine: {outside}"
    assert not messages, f"messages in the console: {messages}"


@pytest.fixture
def axe(tab: Any) -> Any:
    """Runs axe-core on the open page: ``axe()`` returns its serious and critical findings, one line each."""
    if not AXE.is_file():
        pytest.skip(f"axe-core is not there ({AXE.name}); `make browser` fetches it")

    def findings() -> list[str]:
        # By the debugging protocol, which the page's content-security policy does not bind.
        tab.evaluate(AXE.read_text(encoding="utf-8"))
        found = tab.evaluate("async () => (await axe.run()).violations")
        severe = [one for one in found if one["impact"] in ("serious", "critical")]
        return [f"{one['id']}: {one['help']} ({one['nodes'][0]['html'][:120]})" for one in severe]

    return findings
