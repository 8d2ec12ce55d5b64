"""The command ``twoclocks fit``: fit the law τ = a·N^α."""

from __future__ import annotations

import argparse
import json

from twoclocks.commands.options import Add, add_runs
from twoclocks.commands.reading import readable_runs


def add_command(add: Add) -> None:
    fit = add("fit", fit_command, "fit the law τ = a·N^α to runs with different training-set sizes N")
    add_runs(fit)
    fit.add_argument(
        "--clock", default="tau_mem", metavar="CLOCK", help="tau_mem (default), tau_rule, tau_gap or tau_ext"
    )
    fit.add_argument("--threshold", type=float, metavar="X", help="use this threshold in place of that of each run")


def fit_command(arguments: argparse.Namespace) -> None:
    from twoclocks.analysis.laws import fit_runs
    from twoclocks.report.console import show_lines, show_rows
    from twoclocks.report.laws import law_rows

    laws = fit_runs(readable_runs(arguments.runs), arguments.clock, arguments.threshold)
    if arguments.json:
        print(json.dumps(laws.as_json(), indent=2))
        return
    show_lines(f"{arguments.clock} = a·N^α over {laws.pooled.points} runs: {laws.pooled.definition}")
    show_rows(law_rows(laws))
    show_lines(laws.collapse_sentence)
    for reason in laws.left_out:
        show_lines(f"Left out: {reason}")
    for label, split in laws.seeds.items():
        show_lines(f"Spread over crossed seeds, {label}: {split}")
