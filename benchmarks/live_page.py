"""The live page by number of runs: bytes, time to the first table, time to paint in chromium, cost of an update.

python benchmarks/live_page.py --out results/live_page.json [--runs 1 50 200] [--evaluations 1000]

The runs are copies of a small one with more evaluations, checksums included. The server is a process of its own; its
first table counts from the start of Python. An update is one new evaluation of one run; one pass looks at all runs.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from twoclocks.core.config import to_mapping
from twoclocks.report.live.catalogue import Catalogue
from twoclocks.report.live.pages import ASSETS, THEME, asset
from twoclocks.runs import Run, load_settings, run
from twoclocks.runs.columns import STEP
from twoclocks.store import RunDirectory
from twoclocks.store.artifacts import KINDS
from twoclocks.store.checksums import encode_line
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions
from twoclocks.testing.copies import SMALL, without_sync

ROUNDS = 20  # updates that are measured
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def write_run(template: Run, path: Path, seed: int, evaluations: int) -> RunDirectory:
    """One run of so many evaluations, of which the last is left out, and without samples."""
    steps = {"training.steps": evaluations, "evaluation.steps": list(range(1, evaluations + 1))}
    settings = load_settings("demo-gpt", {**SMALL, "data.n": 8, "training.seed": seed, **steps})
    same = {"settings": to_mapping(settings), "origin": settings.digest(), "derived": settings.derived()}
    directory = RunDirectory.create(path, {**template.manifest, **same})
    for journal, rows in (
        (directory.journal, rows_of(template)),
        (directory.timings, template.directory.timings.rows()),
    ):
        link, lines = journal.start, []
        for step in range(1, evaluations):
            line, link = encode_line({**rows[step * len(rows) // evaluations], STEP: step}, link)
            lines.append(line)
        journal.path.write_bytes(b"".join(lines))
    directory.set_status("running", attempts=[{"from_step": 0}])
    return directory


def rows_of(template: Run) -> list[dict[str, Any]]:
    return [{key: row[key] for key in row if key not in KINDS} for row in template.directory.journal.rows()]


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of a folder, from the start of its process."""
    words = [sys.executable, "-m", "twoclocks", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+/", process.stdout.readline())
    assert found is not None
    try:
        yield found[0], process
    finally:
        process.terminate()
        process.wait()


def answer(address: str) -> bytes:
    with urllib.request.urlopen(address) as response:
        return bytes(response.read())


def served(folder: Path) -> dict[str, Any]:
    """Times and sizes of the answers of a server."""
    begin = time.perf_counter()
    with serving(folder) as (address, process):
        first = json.loads(answer(f"{address}data/runs.json"))
        to_first = time.perf_counter() - begin
        while any(not run["evaluations"] for run in json.loads(answer(f"{address}data/runs.json"))["runs"]):
            time.sleep(0.1)
        to_clocks = time.perf_counter() - begin
        timed = []
        for _ in range(5):
            start = time.perf_counter()
            table = answer(f"{address}data/runs.json")
            timed.append(time.perf_counter() - start)
        page = answer(f"{address}data/run-{first['runs'][0]['id']}.json")
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        return {
            "first_table_seconds": round(to_first, 2),
            "runs_in_first_table": len(first["runs"]),
            "all_clocks_seconds": round(to_clocks, 2),
            "table_answer_seconds": round(median(timed), 4),
            "table_bytes": len(table),
            "run_bytes": len(page),
            "megabytes": round(int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024),
            **painted(address, first["runs"][0]["id"], len(first["runs"])),
        }


def painted(address: str, name: str, rows: int) -> dict[str, float]:
    """Milliseconds in a browser to the first paint, and until all rows or curves are there."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        return {}
    from playwright.sync_api import sync_playwright

    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
    found: dict[str, float] = {}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for kind, place, last in (
            ("table", "", f"tbody tr:nth-child({rows})"),
            ("run", f"run-{name}.html", ".frame path.curve"),
        ):
            times: list[tuple[float, float]] = []
            for _ in range(3):
                tab = browser.new_page()
                tab.goto(address + place)
                tab.locator(last).first.wait_for(state="attached")
                done = float(tab.evaluate("performance.now()"))
                tab.wait_for_timeout(200)
                times.append((float(tab.evaluate(paint)), done))
                tab.close()
            first, whole = (round(median(values)) for values in zip(*times, strict=True))
            found |= {f"{kind}_first_paint_ms": first, f"{kind}_complete_ms": whole}
        browser.close()
    return found


def updates(folder: Path, evaluations: int) -> dict[str, Any]:
    """What one pass over all runs costs where nothing is new, and where one run has one new evaluation."""
    catalogue = Catalogue([folder])
    catalogue.discover()
    entries = list(catalogue.entries.values())

    def one_pass() -> float:
        begin = time.perf_counter()
        catalogue.discover()
        for entry in entries:
            entry.poll()
        return time.perf_counter() - begin

    whole = one_pass()
    idle = [one_pass() for _ in range(ROUNDS)]
    directory = RunDirectory(entries[0].path)
    directory.journal.begin(evaluations)
    tail = entries[0].opened.metrics  # type: ignore[attr-defined]
    row, before = dict(directory.journal.rows()[-1]), tail.bytes_read
    busy = []
    for number in range(ROUNDS):
        directory.append_metrics({**row, STEP: evaluations + number})
        busy.append(one_pass())
    return {
        "first_reading_seconds": round(whole, 2),
        "idle_pass_ms": round(1000 * median(idle), 2),
        "update_pass_ms": round(1000 * median(busy), 2),
        "update_bytes": (tail.bytes_read - before) // ROUNDS,
        "bytes_of_the_run": directory.journal.path.stat().st_size,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 50, 200])
    parser.add_argument("--evaluations", type=int, default=1000)
    arguments = parser.parse_args()
    assets = {name: len(asset(name).encode()) for name in ("index.html", "run.html", *ASSETS, THEME)}
    rows = []
    with tempfile.TemporaryDirectory() as place, without_sync():
        template = run(load_settings("demo-gpt", {**SMALL, "data.n": 8}), Path(place) / "template")
        for count in arguments.runs:
            folder = Path(place) / f"runs{count}"
            for number in range(count):
                write_run(template, folder / f"run{number:04d}", number, arguments.evaluations)
            rows.append({"runs": count, **served(folder), **updates(folder, arguments.evaluations)})
            shutil.rmtree(folder)
    for key in rows[0]:
        print(f"{key:24}", *(f"{row.get(key, ''):>12}" for row in rows))
    print(f"{'bytes of the assets':24}", sum(assets.values()))
    result = {
        "command": f"python benchmarks/live_page.py --out results/{arguments.out.name}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cpu"),
        "evaluations": arguments.evaluations,
        "asset_bytes": assets,
        "rows": rows,
    }
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
