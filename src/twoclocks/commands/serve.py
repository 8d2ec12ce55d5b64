"""The command ``twoclocks serve``: show runs in a browser while they train."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from twoclocks.commands.options import Add
from twoclocks.core.errors import UserError


def add_command(add: Add) -> None:
    serve = add("serve", serve_command, "show runs in a browser while they train: curves, clocks, samples")
    serve.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="folders of runs, sweeps and stored states of monitors (default: runs)",
    )
    serve.add_argument("--host", default="127.0.0.1", metavar="HOST", help="address to listen on (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8765, metavar="PORT", help="port (default: 8765; 0: any free one)")
    serve.add_argument(
        "--allow-remote",
        action="store_true",
        help="with --host: let other machines read the runs; the address then contains a secret token",
    )
    serve.add_argument("--once", action="store_true", help="write the pages as static files to --out, and end")
    serve.add_argument("--out", type=Path, metavar="DIR", help="with --once: folder for the static files")


def serve_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_lines
    from twoclocks.report.live.server import serve
    from twoclocks.report.live.site import write_site

    folders = arguments.folders or [Path("runs")]
    if arguments.once != (arguments.out is not None):
        given, other = ("--once", "--out DIR") if arguments.once else ("--out", "--once")
        raise UserError(f"{given}: needs {other}; give both to write static files, or neither to serve")
    if arguments.once:
        show_lines(str(write_site(folders, arguments.out)))
        return

    def report(line: str) -> None:
        show_lines(line)
        sys.stdout.flush()  # the address is needed now, also through a pipe

    serve(folders, arguments.host, arguments.port, arguments.allow_remote, report)
