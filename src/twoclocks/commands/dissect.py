"""The command ``twoclocks dissect``: analyse a run's checkpoints."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

from twoclocks.commands.options import VIEWS_HINT, Add

log = logging.getLogger("twoclocks")


def add_command(add: Add) -> None:
    dissect = add(
        "dissect",
        dissect_command,
        "analyse a run's checkpoints: print findings, write an HTML page",
        VIEWS_HINT,
    )
    dissect.add_argument("run", type=Path, metavar="DIR", help="run directory; the run may still be training")
    dissect.add_argument("--views", nargs="+", metavar="VIEW", help="which views (default: all that apply)")
    dissect.add_argument("--device", help="cpu or cuda (default: the device of the run, if it is available)")
    dissect.add_argument("--out", type=Path, metavar="PAGE.html", help="the page (default: DIR-why.html)")
    dissect.add_argument("--json", action="store_true", help="print the numbers behind the findings as JSON")


def dissect_command(arguments: argparse.Namespace) -> None:
    from twoclocks.dissection.execution import choose_views, dissect_run
    from twoclocks.report.console import show_lines, watch_measurements
    from twoclocks.report.page import write_report
    from twoclocks.report.places import check_owner, page_beside
    from twoclocks.runs import load_run
    from twoclocks.runs.execution import check_device

    views = choose_views(arguments.views, arguments.overrides)
    if arguments.device is not None:
        check_device(arguments.device, "--device")
    run = load_run(arguments.run)
    out = arguments.out if arguments.out is not None else page_beside([arguments.run], "why")
    check_owner(out, [run])
    with watch_measurements() as report:
        found = dissect_run(run, views, arguments.device, report, required=arguments.views or ())
    page = write_report([run], out, {run.path: found})
    for note in found.notes:
        log.warning(note)
    if arguments.json:
        print(json.dumps({"run": str(run.path), **found.as_json(), "report": str(page)}, indent=2, allow_nan=False))
        return
    for name, info in found.infos.items():
        show_lines("", f"{name}")
        for sentence in info.sentences():
            show_lines(f"  {sentence}")
    for name, reason in found.refused.items():
        show_lines("", f"{name}: does not apply: {reason}")
    show_lines("", f"{found.measured:,} new measurements, {found.known:,} from earlier. Page: {page}")
