"""The table of what the live page costs, by number of runs."""

from __future__ import annotations

from docparts.formatting import as_table, read_result, source_of

RESULT = "live_page.json"
LINES = {  # what is shown: key, unit
    "first table, from the start of the command": ("first_table_seconds", "s"),
    "all clocks": ("all_clocks_seconds", "s"),
    "all rows painted in chromium": ("table_complete_ms", "ms"),
    "one pass over all runs, nothing new": ("idle_pass_ms", "ms"),
    "the same, one new evaluation of one run": ("update_pass_ms", "ms"),
    "read for it": ("update_bytes", "bytes"),
    "memory": ("megabytes", "MB"),
}


def live_page_table() -> str:
    """One column per number of runs."""
    result = read_result(RESULT)
    rows = [
        {"": name, **{f"runs: {row['runs']}": f"{row[key]:,} {unit}" for row in result["rows"]}}
        for name, (key, unit) in LINES.items()
    ]
    size, assets = result["rows"][0]["bytes_of_the_run"], sum(result["asset_bytes"].values())
    about = (
        f"Runs of {result['evaluations']:,} evaluations ({size / 1e6:.1f} MB of rows each), on two CPU cores. "
        f"Pages, styles and scripts are {assets / 1000:.0f} kB together."
    )
    return f"{about}\n\n{as_table(rows)}\n\n{source_of(RESULT, result)}"


PARTS = {"live page": live_page_table}
