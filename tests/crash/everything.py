"""All campaigns whole: `make test-crash`. Prints the table, and with --out stores it for docs/reliability.md.

The campaigns are imported inside of the functions: every process that a campaign starts imports this file again, and
would need a second for them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from campaigns import Tally


def tallies(folder: Path) -> Iterator[Tally]:
    import campaigns
    import hostile_input
    import monitor_campaigns
    import power
    import sweep_campaigns

    def place() -> Path:
        return Path(tempfile.mkdtemp(dir=folder))

    yield campaigns.kills_at_random(place(), kills=200)
    yield campaigns.kills_at_boundaries(place())
    yield campaigns.kills_at_boundaries(place(), every=2, in_a_row=3)
    yield power.power_cuts(place())
    yield campaigns.damaged(place(), "bit flipped", 1000)
    yield campaigns.damaged(place(), "file truncated", 1000)
    yield campaigns.damaged(place(), "page zeroed", 200)
    yield campaigns.damaged(place(), "file deleted", 50)
    yield from campaigns.disk_errors(place())
    yield sweep_campaigns.sweeps_killed(place(), kills=21)
    yield sweep_campaigns.workers_killed(place(), workers=16, cells=500)
    yield hostile_input.hostile_inputs(place(), 2000)
    yield monitor_campaigns.odd_monitor_calls(place())
    yield monitor_campaigns.monitor_state_flips(place())
    yield monitor_campaigns.forged_monitor_states(place())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where to store the table, for example results/reliability.json")
    arguments = parser.parse_args()
    rows = []
    print(f"{'campaign':58} {'tried':>6} {'equal':>6} {'detected':>8} {'wrong':>6} {'seconds':>8}")
    with tempfile.TemporaryDirectory(prefix="twoclocks-crash-") as folder:
        begin = time.perf_counter()
        for tally in tallies(Path(folder)):
            seconds, begin = time.perf_counter() - begin, time.perf_counter()
            row = vars(tally)
            numbers = f"{tally.tried:6} {tally.equal:6} {tally.detected:8} {tally.wrong:6} {seconds:8.1f}"
            print(f"{tally.campaign:58} {numbers}", flush=True)
            rows.append({**row, "seconds": round(seconds, 1)})
            assert tally.good, tally
    if arguments.out is not None:
        from twoclocks.store.files import write_json
        from twoclocks.store.provenance import commit, machine, versions

        about = {"command": "make test-crash", "commit": commit(), "versions": versions(), "machine": machine("cpu")}
        write_json(arguments.out, {**about, "runs": rows})


if __name__ == "__main__":
    main()
