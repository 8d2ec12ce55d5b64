"""The command ``twoclocks plan``: predict both clocks of a run from small pilots, and say when to stop it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from twoclocks.commands.options import Add
from twoclocks.commands.reading import readable_runs


def add_command(add: Add) -> None:
    plan = add(
        "plan",
        plan_command,
        "predict both clocks at a larger training-set size from small pilots: does a budget cross τ_mem, when to stop?",
    )
    plan.add_argument(
        "pilots", nargs="+", type=Path, metavar="DIR", help="finished runs of at least 4 sizes, or folders of them"
    )
    plan.add_argument("--n", type=int, required=True, metavar="N", help="training samples of the planned run")
    plan.add_argument(
        "--budget", required=True, metavar="B", help="how long it may train: steps (20000), or time (2h, 30m, 90s)"
    )
    plan.add_argument(
        "--widen",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="folder of 'twoclocks widen': also say what its interventions would change; can be repeated",
    )
    plan.add_argument("--json", action="store_true", help="print the result as JSON")


def plan_command(arguments: argparse.Namespace) -> None:
    from twoclocks.analysis.gains import read_gains
    from twoclocks.analysis.plans import plan_run
    from twoclocks.report.console import show_lines, show_rows
    from twoclocks.report.plans import RECORD, gain_rows, plan_rows, sentences

    gains = [gain for folder in arguments.widen for gain in read_gains(folder)]
    plan = plan_run(readable_runs(arguments.pilots), arguments.n, arguments.budget, gains)
    if arguments.json:
        found = {**plan.as_json(), "sentences": sentences(plan)}
        sys.stdout.write(json.dumps(found, indent=2, allow_nan=False) + "\n")
        return
    show_lines(f"Plan for N = {plan.n:,} from {plan.memory.law.points:,} pilots")
    show_rows(plan_rows(plan))
    if plan.gains:
        show_rows(gain_rows(plan))
    show_lines(*sentences(plan), RECORD)
