"""Run one recipe of the second paper.

python -m twoclocks.papers NAME --device cuda --work DIR --out results/NAME.json
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from twoclocks.core.arguments import EXIT_BAD_INPUT, OneLineParser
from twoclocks.core.errors import UserError
from twoclocks.papers import early_stopping
from twoclocks.papers.recipe import RECIPES, execute_recipe

assert early_stopping.__doc__  # importing the folder registers its recipes


def main(given: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code. Bad input: one line on stderr and exit code 2."""
    parser = OneLineParser(prog="python -m twoclocks.papers", description="Run one recipe and judge its claim.")
    parser.add_argument("name", metavar="NAME", help=f"one of {', '.join(RECIPES.names())}")
    parser.add_argument("--device", default="cuda", help="cpu, cuda (default) or cuda:N")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="runs; finished ones are not repeated")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.json", help="the result to write")
    parser.add_argument("--only", nargs="+", default=[], metavar="RUN", help="some of its runs, by label")
    arguments = parser.parse_args(given)

    def report(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    try:
        measured = execute_recipe(
            arguments.name, arguments.device, arguments.work, arguments.out, report, arguments.only
        )
    except UserError as error:
        sys.stderr.write(f"twoclocks: {error}\n")
        return EXIT_BAD_INPUT
    report(f"{measured.verdict}: {measured.sentence}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
