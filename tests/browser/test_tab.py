"""The fixtures themselves: a page that is right passes, and what they forbid is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_axe_finds_an_image_without_text(tab: Any, axe: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    head = "<!doctype html><html lang='en'><title>t</title><main><h1>t</h1>"
    page.write_text(f"{head}<p>right</p></main></html>")
    tab.goto(page.as_uri())
    assert axe() == []
    page.write_text(f"{head}<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='></main></html>")
    tab.goto(page.as_uri())
    assert [one.split(":")[0] for one in axe()] == ["image-alt"]
