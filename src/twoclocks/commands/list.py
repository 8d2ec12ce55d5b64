"""The command ``twoclocks list``: what is registered, settings, templates."""

from __future__ import annotations

import argparse
import json

from twoclocks.commands.options import Add
from twoclocks.core.errors import UserError

LISTS = (
    *("presets", "rules", "encodings", "models", "objectives", "executors", "metrics", "views", "settings"),
    *("interventions", "templates"),
)


def add_command(add: Add) -> None:
    listing = add("list", list_command, "list presets, rules, models, settings, … or templates for your own")
    listing.add_argument("kind", choices=LISTS, metavar="KIND", help=f"one of {', '.join(LISTS)}")
    listing.add_argument("name", nargs="?", metavar="NAME", help="with KIND templates: print this template")
    listing.add_argument("--json", action="store_true", help="print the list as JSON")


def list_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_rows
    from twoclocks.report.listing import cached_rows

    if arguments.name is not None:
        if arguments.kind != "templates":
            raise UserError(f"{arguments.name!r}: only templates can be printed by name; leave it out")
        from twoclocks.report.listing import read_template

        print(read_template(arguments.name), end="")
        return
    if arguments.kind == "executors":
        from twoclocks.report.listing import registry_rows
        from twoclocks.sweeps import EXECUTORS

        rows = registry_rows(EXECUTORS)
    elif arguments.kind == "interventions":
        from twoclocks.core.cached import cached

        rows = cached("list-interventions", intervention_rows)
    else:
        rows = cached_rows(arguments.kind)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show_rows(rows)


def intervention_rows() -> list[dict[str, str]]:
    from twoclocks.report.listing import registry_rows
    from twoclocks.widen import INTERVENTIONS

    return registry_rows(INTERVENTIONS)
