"""How large a static page is, and how soon a browser paints it: the page of the demo.

    python benchmarks/page_size.py --demo demo --out results/page_size.json

``--demo``: the folder of `twoclocks demo`, which is run there if it is empty. Needs playwright and chromium.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import sync_playwright

from twoclocks.cli import main as twoclocks
from twoclocks.core.errors import UserError
from twoclocks.report.page import write_report
from twoclocks.runs import load_run
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

RUNS = ("demo", "demo-gpt")
ROUNDS = 7  # each in a browser context of its own; the first is left out, since it warms the file cache
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCREENS = {"desktop": {"width": 1280, "height": 800}, "phone": {"width": 360, "height": 780}}
PAINTS = "performance.getEntriesByType('paint').map(one => [one.name, one.startTime])"
PARTS = {
    "films": r'<script type="text/plain">.*?</script>',
    "values of curves": r'<script type="application/json" class="values">.*?</script>',
    "figures": r"<svg role.*?</svg>",
    "samples": r'<div class="tiles".*?</svg><b>.</b></div>\s*</div></div>',
    "script": r"<script>.*?</script>",
    "style": r"<style>.*?</style>",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, default=Path("demo"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if not all((arguments.demo / name).is_dir() for name in RUNS) and twoclocks(["demo", "--out", str(arguments.demo)]):
        raise UserError(f"--demo: the demo in {arguments.demo} failed")
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        page = write_report([load_run(arguments.demo / name) for name in RUNS], Path(folder) / "report.html")
        seconds = time.monotonic() - started
        text, paints = page.read_text(encoding="utf-8"), first_paints(page)
    write_json(
        arguments.out,
        {
            "command": "python benchmarks/page_size.py --demo demo --out results/page_size.json",
            "commit": commit(),
            "versions": versions(),
            "machine": machine("cpu"),
            "bytes": len(text.encode()),
            "bytes_by_part": {name: part_bytes(text, pattern) for name, pattern in PARTS.items()},
            "seconds_to_write": seconds,
            **paints,
        },
    )


def part_bytes(page: str, pattern: str) -> int:
    return sum(len(part.encode()) for part in re.findall(pattern, page, re.DOTALL))


def first_paints(page: Path) -> dict[str, Any]:
    """Milliseconds from navigation to the first paint and to the page's end, by screen."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    found: dict[str, Any] = {}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, size in SCREENS.items():
            times = [painted(browser, page, size) for _ in range(ROUNDS)][1:]
            kinds = {kind: [one[kind] for one in times] for kind in times[0]}
            found[name] = {kind: {"median": median(ones), "all": ones} for kind, ones in kinds.items()}
        version = browser.version
        browser.close()
    return {"browser": f"Chromium {version}", "rounds": ROUNDS - 1, "milliseconds": found}


def painted(browser: Any, page: Path, size: dict[str, int]) -> dict[str, float]:
    context = browser.new_context(viewport=size)
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_function(f"{PAINTS}.length > 0")
    paints = dict(tab.evaluate(PAINTS))
    loaded = tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    context.close()
    return {"first contentful paint": float(paints["first-contentful-paint"]), "loaded": float(loaded)}


if __name__ == "__main__":
    main()
