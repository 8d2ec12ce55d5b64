"""The command ``twoclocks report``: write an HTML page about runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from twoclocks.commands.options import Add, add_runs
from twoclocks.commands.reading import readable_runs, run_folders


def add_command(add: Add) -> None:
    report = add("report", report_command, "write an HTML page about one or more runs")
    add_runs(report, with_json=False)
    report.add_argument(
        "--out",
        type=Path,
        metavar="PAGE.html",
        help="the page (default: DIR-report.html; for several DIR, report.html beside the first)",
    )
    report.add_argument(
        "--pages",
        action="store_true",
        help="write a page of each run beside it too, to which the page of all runs links",
    )


def report_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_lines
    from twoclocks.report.page import write_report
    from twoclocks.report.places import check_owner, page_beside

    runs = readable_runs(arguments.runs)
    out = arguments.out if arguments.out is not None else page_beside(arguments.runs, "report")
    read = {run.path.absolute() for run in runs}
    check_owner(out, runs, unread=[path for path in run_folders(arguments.runs) if path.absolute() not in read])
    if arguments.pages:
        pages = {page_beside([run.path], "report"): run for run in runs}
        for page, run in pages.items():
            check_owner(page, [run])
        for page, run in pages.items():
            write_report([run], page)
    show_lines(str(write_report(runs, out)))
