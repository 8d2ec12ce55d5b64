"""The command ``twoclocks demo``: train a small DiT and a small GPT and report on both."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from twoclocks.commands.options import SETTINGS_HINT, Add
from twoclocks.core.errors import UserError

_DEMO_PRESETS = ("demo", "demo-gpt")
_PAGES, _ENDS = ("why", "report"), (".html", ".png")  # what dissect and report write beside a run


def add_command(add: Add) -> None:
    demo = add(
        "demo",
        demo_command,
        "train a small DiT and a small GPT, print their clocks, analyse their checkpoints, write a report",
        SETTINGS_HINT,
    )
    demo.add_argument(
        "--out",
        type=Path,
        default=Path("demo"),
        metavar="DIR",
        help="folder for the two runs and the report (default: demo)",
    )
    demo.add_argument("--json", action="store_true", help="print the result as JSON")


def demo_command(arguments: argparse.Namespace) -> None:
    from twoclocks.dissection import dissect_run
    from twoclocks.report.console import show_clocks, show_lines, watch, watch_measurements
    from twoclocks.report.page import write_report
    from twoclocks.report.places import check_owner
    from twoclocks.report.summary import summarise
    from twoclocks.runs import load_settings, run
    from twoclocks.store import check_free

    chosen = [load_settings(preset, arguments.overrides) for preset in _DEMO_PRESETS]
    names = [settings.name for settings in chosen]
    pages = [
        f"{page}{end}" for page in ("report", *(f"{name}-{kind}" for name in names for kind in _PAGES)) for end in _ENDS
    ]
    check_free(arguments.out, besides=[*names, *pages])
    if len({settings.name for settings in chosen}) < len(chosen):
        raise UserError(f"name: {chosen[0].name!r} would name both runs of the demo; leave it out")
    page = arguments.out / "report.html"
    if arguments.out.exists():
        check_owner(page, [], unread=[arguments.out / name for name in names])
    runs = []
    for settings in chosen:
        with watch(settings) as observe:
            runs.append(run(settings, arguments.out / settings.name, observe))
    for done in runs:
        with watch_measurements() as report:
            dissect_run(done, report=report)
    write_report(runs, page)
    if arguments.json:
        print(json.dumps({"runs": [summarise(run) for run in runs], "report": str(page)}, indent=2))
    else:
        show_clocks(runs)
        show_lines(f"Open {page} in a browser. Live pages of the same runs: twoclocks serve {arguments.out}")
