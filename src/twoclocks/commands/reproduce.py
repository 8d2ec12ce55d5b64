"""The command ``twoclocks reproduce``: its options. What it does is in ``twoclocks.papers.command``."""

from __future__ import annotations

import argparse
from pathlib import Path

from twoclocks.commands.options import EXECUTOR_HINT, Add, add_executor


def add_command(add: Add) -> None:
    reproduce = add(
        "reproduce",
        reproduce_command,
        "make the runs of the papers' figures and claims, draw and judge them; without a name: list them",
        EXECUTOR_HINT,
    )
    reproduce.add_argument(
        "names", nargs="*", metavar="NAME", help="figures and claims such as fig2 A6, or all, campaign, ledger"
    )
    reproduce.add_argument("--list", action="store_true", help="list figures and claims with their runs and minutes")
    reproduce.add_argument(
        "--scale", default="gpu", metavar="SCALE", help="smoke, desk, gpu (default) or paper: how large the runs are"
    )
    reproduce.add_argument(
        "--out",
        type=Path,
        default=Path("reproduction"),
        metavar="DIR",
        help="folder for runs, figures and the page (default: reproduction)",
    )
    reproduce.add_argument(
        "--rows", type=Path, metavar="DIR", help="rows of finished runs (default: results/campaign, or below --out)"
    )
    reproduce.add_argument(
        "--minutes", type=float, default=9.0, metavar="M", help="with campaign: stop after this time (default: 9)"
    )
    reproduce.add_argument("--plan", action="store_true", help="with campaign: list what is waiting and train nothing")
    add_executor(reproduce)
    reproduce.add_argument("--json", action="store_true", help="print the result as JSON")


def reproduce_command(arguments: argparse.Namespace) -> int:
    from twoclocks.papers.command import reproduce

    return reproduce(arguments)
