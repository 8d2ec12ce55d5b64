"""The command ``twoclocks sweep``: train one model per cell of a grid of settings."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

from twoclocks.commands.options import SETTINGS_HINT, Add, add_checkpoint_seconds, add_executor
from twoclocks.core.exit_codes import EXIT_FAILED

log = logging.getLogger("twoclocks")


def add_command(add: Add) -> None:
    sweep = add("sweep", sweep_command, "train one model per cell of a grid of settings", SETTINGS_HINT)
    sweep.add_argument("spec", metavar="SPEC.yaml", help="YAML file with base, grid and seeds; see docs/sweeps.md")
    sweep.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the runs and the table (default: sweeps/NAME)"
    )
    add_executor(sweep)
    sweep.add_argument("--retries", type=int, default=3, metavar="N", help="attempts after the first (default: 3)")
    add_checkpoint_seconds(sweep)
    sweep.add_argument("--plan", action="store_true", help="list the cells and train nothing")
    sweep.add_argument("--status", action="store_true", help="print the status of each cell and train nothing")
    sweep.add_argument("--json", action="store_true", help="print the status as JSON")


def sweep_command(arguments: argparse.Namespace) -> int:
    from twoclocks.report.console import show_lines, show_rows, watch_sweep
    from twoclocks.sweeps import Sweep, executor_of, read_plan, run_sweep
    from twoclocks.sweeps.together import groups_in_words

    executor, overrides = executor_of(arguments.executor, arguments.workers, arguments.overrides)
    plan = read_plan(Path(arguments.spec), overrides)
    sweep = Sweep(plan, arguments.out if arguments.out is not None else Path("sweeps") / plan.name)
    if not arguments.status and (notice := sweep.disk_notice()):
        log.info(notice)
    if not arguments.plan and not arguments.status:
        with watch_sweep() as observe:
            sweep = run_sweep(
                plan,
                sweep.root,
                executor,
                observe,
                retries=arguments.retries,
                checkpoint_seconds=arguments.checkpoint_seconds,
            )
    if arguments.json:
        print(json.dumps(sweep.status(), indent=2))
    else:
        show_rows(sweep.lines())
        show_lines(sweep.summary())
        if arguments.plan and (together := groups_in_words(plan.cells, executor.packing)):
            show_lines(together)
    return EXIT_FAILED if sweep.counts()["failed"] else 0
