"""The command ``twoclocks bench``: measure the speed beside a textbook loop and the limit of this machine."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any

from twoclocks.commands.options import Add

log = logging.getLogger("twoclocks")


def add_command(add: Add) -> None:
    bench = add(
        "bench",
        bench_command,
        "measure the speed, compared with a textbook loop and with the limit of this machine",
    )
    bench.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    bench.add_argument(
        "--parts", nargs="+", metavar="PART", help="steps, evaluations, where, growth (default: all of them)"
    )
    bench.add_argument(
        "--work", nargs="+", metavar="NAME", help="networks to measure, by name; growth has none (default: all)"
    )
    bench.add_argument("--seconds", type=float, default=6.0, metavar="S", help="time per measurement (default: 6)")
    bench.add_argument(
        "--compiled",
        action=argparse.BooleanOptionalAction,
        help="also measure the textbook loop under torch.compile, which takes up to a minute per loop to compile "
        "(default: with --device cuda only)",
    )
    bench.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for bench.json, written after each measurement, and the figures (default: write nothing)",
    )
    bench.add_argument("--json", action="store_true", help="print the result as JSON")


def bench_command(arguments: argparse.Namespace) -> None:
    from twoclocks.bench import suite
    from twoclocks.bench.tables import tables
    from twoclocks.report.console import show_lines, show_table
    from twoclocks.store.files import make_folder

    parts = arguments.parts if arguments.parts is not None else suite.PARTS
    if arguments.out is not None:
        make_folder(arguments.out)  # before the minutes that measuring takes

    def save(record: dict[str, Any]) -> None:
        if arguments.out is not None:
            suite.write(record, arguments.out, figures=False)

    record = suite.measure(
        arguments.device,
        parts,
        arguments.seconds,
        report=log.info,
        compiled=arguments.compiled,
        labels=arguments.work,
        save=save,
    )
    written = suite.write(record, arguments.out) if arguments.out is not None else []
    if arguments.json:
        sys.stdout.write(json.dumps(record, indent=2) + "\n")
        return
    for table in tables(record):
        show_table(*table)
    for path in written:
        show_lines(str(path))
