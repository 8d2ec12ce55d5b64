"""The command ``twoclocks clocks``: print τ_rule and τ_mem of runs."""

from __future__ import annotations

import argparse
import json

from twoclocks.commands.options import Add, add_runs
from twoclocks.commands.reading import load_runs


def add_command(add: Add) -> None:
    clocks = add("clocks", clocks_command, "print τ_rule (the rule is learned) and τ_mem (copying starts) of runs")
    add_runs(clocks)
    clocks.add_argument(
        "--controls",
        action="store_true",
        help="also print the scores of baselines that know only local statistics of the training set",
    )


def clocks_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_clocks, show_lines, show_rows
    from twoclocks.report.summary import control_rows, onset_rows, summarise

    if arguments.json:
        found = load_runs(arguments.runs, lambda run: summarise(run, arguments.controls))
        print(json.dumps([summary for _, summary in found], indent=2))
        return
    table = load_runs(arguments.runs, onset_rows)
    runs = [run for run, _ in table]
    show_clocks(runs)
    show_lines("", "All onsets")
    rows = [row for _, rows in table for row in rows]
    definitions = {(row["onset"], row.pop("definition")): row.pop("status") for row in rows}  # the same for most runs
    show_rows(rows)
    for onset, definition in definitions:
        show_lines(f"{onset}: {definition}")
    if arguments.controls:
        show_lines("", "What models of local statistics of the training set would score")
        show_rows([row for run in runs for row in control_rows(run)])
