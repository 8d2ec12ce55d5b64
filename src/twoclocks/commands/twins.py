"""The command ``twoclocks twins``: compare two runs that differ only in their training samples."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

from twoclocks.commands.options import Add

log = logging.getLogger("twoclocks")


def add_command(add: Add) -> None:
    twins = add(
        "twins",
        twins_command,
        "compare two runs that differ only in their training samples: from which step on do they differ?",
    )
    twins.add_argument("first", type=Path, metavar="DIR_A", help="run directory; the run may still be training")
    twins.add_argument("second", type=Path, metavar="DIR_B", help="a run with the same settings, except data.part")
    twins.add_argument(
        "--rows", type=int, default=1024, metavar="N", help="test strings on which outputs are compared (default: 1024)"
    )
    twins.add_argument("--device", help="cpu or cuda (default: the device of DIR_A, if it is available)")
    twins.add_argument("--out", type=Path, metavar="PAGE.html", help="the page (default: DIR_A-NAME_B-twins.html)")
    twins.add_argument("--json", action="store_true", help="print the numbers behind the findings as JSON")


def twins_command(arguments: argparse.Namespace) -> None:
    from twoclocks.analysis.twins import compare_twins
    from twoclocks.report.console import show_lines, watch_measurements
    from twoclocks.report.page import write_report
    from twoclocks.report.places import check_owner, twins_page
    from twoclocks.runs import load_run
    from twoclocks.runs.execution import check_device

    if arguments.device is not None:
        check_device(arguments.device, "--device")
    first, second = load_run(arguments.first), load_run(arguments.second)
    out = arguments.out if arguments.out is not None else twins_page(arguments.first, arguments.second)
    check_owner(out, [first, second])
    with watch_measurements("twins") as report:
        found = compare_twins(first, second, arguments.device, arguments.rows, report)
    page = write_report([first, second], out, twins=[found])
    for note in found.notes:
        log.warning(note)
    sentences = found.sentences()
    if arguments.json:
        plain = {"runs": [str(first.path), str(second.path)], **found.numbers(), "sentences": sentences}
        print(json.dumps({**plain, "report": str(page)}, indent=2, allow_nan=False))
        return
    show_lines(*sentences, "", f"Page: {page}")
