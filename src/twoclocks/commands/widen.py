"""The command ``twoclocks widen``: its options. What it does is in ``twoclocks.widen.command``."""

from __future__ import annotations

import argparse
from pathlib import Path

from twoclocks.commands.options import Add, add_executor

HINT = (
    "Settings of the base (--data.n 64), of interventions (--dropout.rate 0.2) and of the executor can follow; see "
    "'twoclocks list settings' and 'twoclocks list interventions'."
)


def add_command(add: Add) -> None:
    widen = add(
        "widen",
        widen_command,
        "measure which interventions delay copying and widen the window, on the same seeds as a base",
        HINT,
    )
    widen.add_argument(
        "base", metavar="BASE", help="a preset (see 'twoclocks list presets') or a YAML file: what is to be improved"
    )
    widen.add_argument(
        "--with",
        dest="chosen",
        nargs="+",
        metavar="NAME",
        help="interventions to try (default: all that apply; see 'twoclocks list interventions')",
    )
    widen.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds of every arm (default: 3)")
    widen.add_argument(
        "--longer",
        type=float,
        default=2.0,
        metavar="X",
        help="train up to X times the steps of the base, so that a later onset is seen (default: 2)",
    )
    widen.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the runs, widen.json and widen.html (default: widen/NAME)"
    )
    widen.add_argument(
        "--rows",
        type=Path,
        metavar="DIR",
        help="also keep every run that ends as a small file in DIR; runs that are there are not trained again, "
        "so an experiment can go on on another machine",
    )
    add_executor(widen)
    widen.add_argument("--finished", action="store_true", help="compare the runs that are finished, and train nothing")
    widen.add_argument("--plan", action="store_true", help="list the runs and train nothing")
    widen.add_argument("--json", action="store_true", help="print the result as JSON")


def widen_command(arguments: argparse.Namespace) -> int:
    from twoclocks.widen.command import widen

    return widen(arguments)
