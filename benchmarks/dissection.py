"""Time of a whole dissection: every view of a run, without any cached measurement, and the page with its figures.

    python benchmarks/dissection.py DIR --out results/dissection_h200.json

DIR is a run directory with weights. Measurements that are cached there are not used, and stay.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from twoclocks.core.config import to_mapping
from twoclocks.dissection.cache import Cache
from twoclocks.dissection.execution import choose_views, dissect
from twoclocks.dissection.subject import RunSubject
from twoclocks.report.drawings import why_chapter
from twoclocks.runs import load_run
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device")
    arguments = parser.parse_args()
    run = load_run(arguments.run)
    spent: Counter[str] = Counter()
    last = [time.perf_counter(), "start"]

    def report(done: int, total: int, message: str) -> None:
        now = time.perf_counter()
        spent[str(last[1])] += now - float(last[0])  # type: ignore[assignment]
        last[:] = [now, message.split(" ")[0]]

    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        subject = RunSubject(run, arguments.device)
        found = dissect(subject, choose_views(), Cache(Path(folder)), report)
        measured = time.perf_counter() - begin
        why_chapter(found, salt="x")
    total_seconds = time.perf_counter() - begin
    result = {
        "command": f"python benchmarks/dissection.py DIR --out results/{arguments.out.name}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine(subject.device) | {"threads": subject.pool.size},
        "settings": to_mapping(run.settings),
        "checkpoints": len(subject.steps("weights")),
        "evaluations": len(subject.steps("samples")),
        "looks": found.measured,
        "seconds": {
            "views": {name: round(value, 2) for name, value in spent.most_common() if name and name != "start"},
            "measuring": round(measured, 1),
            "drawing": round(total_seconds - measured, 1),
            "whole": round(total_seconds, 1),
        },
        "sentences": {name: info.sentences() for name, info in found.infos.items()},
        "refused": found.refused,
    }
    write_json(arguments.out, result)
    print(
        f"{result['looks']} measurements in {measured:.1f} s, with drawing {total_seconds:.1f} s: {result['seconds']}"
    )


if __name__ == "__main__":
    main()
