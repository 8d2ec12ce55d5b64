"""A finished sweep as one small result: settings, clocks and curves of every cell, with commit and device.

python studies/collect_sweep.py sweeps/NAME --spec studies/campaign/NAME.yaml --out results/NAME.json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from twoclocks.papers.recipe import shared_value
from twoclocks.runs import Run, load_run
from twoclocks.runs.columns import STEP, SUMMARY
from twoclocks.store import runs_in
from twoclocks.store.files import write_json

CURVES = (STEP, "trials", *SUMMARY)


def row(run: Run) -> dict[str, Any]:
    """What is recorded of one cell."""
    columns = run.metrics()
    curves = {
        name: [None if v != v else round(v, 6) for v in columns[name].tolist()] for name in CURVES if name in columns
    }
    kept = {key: run.status.get(key) for key in ("status", "stopped_at", "reason", "seconds")}
    return {**run.clocks().as_json(), **kept, "settings": run.manifest["settings"], "curves": curves}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    runs = [load_run(path) for path in runs_in(arguments.sweep)]
    origin = {key: shared_value(run.manifest[key] for run in runs) for key in ("commit", "versions", "machine")}
    command = (
        f"twoclocks sweep {arguments.spec} --out DIR && python studies/collect_sweep.py DIR --spec {arguments.spec}"
    )
    cells = {run.path.name: row(run) for run in runs}
    write_json(arguments.out, {"sweep": arguments.spec.stem, "command": command, **origin, "runs": cells})


if __name__ == "__main__":
    main()
