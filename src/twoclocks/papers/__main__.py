"""Run one recipe: ``python -m twoclocks.papers NAME --device cuda --work DIR --out results/NAME.json``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from twoclocks.papers import early_stopping, two_clocks
from twoclocks.papers.recipe import RECIPES, execute_recipe

assert two_clocks.__doc__ and early_stopping.__doc__  # importing a folder registers its recipes


def main() -> None:
    """Parse the command line and run the recipe."""
    parser = argparse.ArgumentParser(prog="python -m twoclocks.papers", description=__doc__)
    parser.add_argument("name", choices=RECIPES.names())
    parser.add_argument("--device", default="cuda", help="cpu, cuda or cuda:N")
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs; finished ones are not repeated")
    parser.add_argument("--out", type=Path, required=True, help="file of the result, as JSON")
    parser.add_argument("--only", nargs="+", default=[], metavar="RUN", help="run only these, by label")
    arguments = parser.parse_args()

    def report(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    measured = execute_recipe(arguments.name, arguments.device, arguments.work, arguments.out, report, arguments.only)
    report(f"{measured.verdict}: {measured.sentence}")


if __name__ == "__main__":
    main()
