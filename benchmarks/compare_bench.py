"""Records of ``twoclocks bench`` from before and after a change, as ratios per workload.

twoclocks bench --device cuda --parts steps evaluations --json > before-1.json   # in the old tree, in turns with
twoclocks bench --device cuda --parts steps evaluations --json > after-1.json    # the new one, on one machine
python benchmarks/compare_bench.py --before before-*.json --after after-*.json --commits OLD NEW --out FILE.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

from twoclocks.store.files import write_json

PARTS = {"steps": "steps_per_second", "evaluations": "seconds"}  # part of the record: what is compared


def speeds(records: list[dict[str, Any]], part: str) -> dict[str, list[float]]:
    """Our number of every workload, one per record."""
    found: dict[str, list[float]] = {}
    for record in records:
        for row in record[part]:
            found.setdefault(row["work"], []).append(row[PARTS[part]]["ours"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, nargs="+", required=True)
    parser.add_argument("--after", type=Path, nargs="+", required=True)
    parser.add_argument("--commits", nargs=2, required=True, metavar=("OLD", "NEW"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    before, after = ([json.loads(path.read_text()) for path in paths] for paths in (arguments.before, arguments.after))
    rows = []
    for part, unit in PARTS.items():
        old, new = speeds(before, part), speeds(after, part)
        for work in old.keys() & new.keys():
            ratio = median(new[work]) / median(old[work])
            rows.append(
                {"part": part, "work": work, "unit": unit, "before": old[work], "after": new[work], "ratio": ratio}
            )
            print(f"{part:12} {work:22} {ratio:.3f}")
    result = {
        "command": "python benchmarks/compare_bench.py --before A.json … --after B.json … --commits OLD NEW --out FILE",
        "commit": arguments.commits[1],
        "commit_before": arguments.commits[0],
        **{key: after[0][key] for key in ("versions", "machine")},
        "rows": sorted(rows, key=lambda row: (row["part"], row["work"])),
    }
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
