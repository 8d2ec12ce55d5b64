"""The command ``twoclocks verify``: check every file of run directories against its SHA-256."""

from __future__ import annotations

import argparse
import json

from twoclocks.commands.options import Add, add_runs
from twoclocks.core.exit_codes import EXIT_DAMAGED


def add_command(add: Add) -> None:
    verify = add("verify", verify_command, "check every file of run directories against its SHA-256")
    add_runs(verify)


def verify_command(arguments: argparse.Namespace) -> int:
    from twoclocks.report.console import show_findings
    from twoclocks.store import verify_tree

    found = [findings for folder in arguments.runs for findings in verify_tree(folder)]
    if arguments.json:
        print(json.dumps([{**vars(one), "path": str(one.path)} for one in found], indent=2))
    else:
        show_findings(found)
    return 0 if all(one.intact for one in found) else EXIT_DAMAGED
