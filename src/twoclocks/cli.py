"""The command line: parses and calls; no logic. Bad input: one line on stderr and exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from twoclocks import __version__, commands
from twoclocks.core.errors import UserError
from twoclocks.core.logging import log_to_stderr

EXIT_BAD_INPUT, EXIT_DIVERGED, EXIT_STOPPED, EXIT_DISK, EXIT_INTERRUPTED = 2, 3, 4, 5, 130
SETTINGS_HINT = "Any setting can follow: --data.n 512 --training.seed 1 (see 'twoclocks list settings')."
VIEWS_HINT = "Settings of views can follow: --field.grid 41 --spectrum.rows 256 (see 'twoclocks list views')."
FLAGS = ("--json", "--fork", "--plan", "--status", "--help", "-h")  # words that take no value
Add = Callable[..., argparse.ArgumentParser]
LISTS = ("presets", "rules", "encodings", "models", "objectives", "executors", "metrics", "views", "settings")


def main(words: Sequence[str] | None = None) -> int:
    """Entry point of the command ``twoclocks``."""
    parser = make_parser()
    arguments, rest = parser.parse_known_args(with_preset(sys.argv[1:] if words is None else list(words)))
    if not hasattr(arguments, "call"):
        parser.print_help()
        return 0
    from twoclocks.store.files import DiskError
    from twoclocks.training.errors import DivergedError
    from twoclocks.training.stopping import StoppedError

    log_to_stderr()
    try:
        if rest and not arguments.takes_settings:
            raise UserError(
                f"{rest[0]!r} is not an option of {arguments.command}; see twoclocks {arguments.command} --help"
            )
        arguments.overrides = rest
        return arguments.call(arguments) or 0
    except DivergedError as error:
        print(f"twoclocks: {error}", file=sys.stderr)
        return EXIT_DIVERGED
    except DiskError as error:
        print(f"twoclocks: {error}", file=sys.stderr)
        return EXIT_DISK if error.fault else EXIT_BAD_INPUT
    except UserError as error:
        print(f"twoclocks: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except StoppedError as error:
        print(f"twoclocks: {error}; all is stored, the same command continues", file=sys.stderr)
        return EXIT_STOPPED
    except KeyboardInterrupt:
        print("twoclocks: interrupted; what was evaluated so far is stored", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return 0
    except OSError as error:
        where = error.filename if error.filename is not None else "disk"
        print(
            f"twoclocks: {where}: {error.strerror or error}; choose a place that can be read and written",
            file=sys.stderr,
        )
        return EXIT_BAD_INPUT


def with_preset(words: list[str]) -> list[str]:
    """``run`` and ``sweep`` with their file in front, wherever it stands, and no name for the default preset.

    The parser would take the value of a setting that it does not know for the file.
    """
    if words[:1] not in (["run"], ["sweep"]):
        return words
    place = 1
    while place < len(words) and words[place].startswith("-"):
        alone = "=" in words[place] or words[place] in FLAGS
        place += 1 if alone else 2
    file = words[place : place + 1] or [""] * (words[0] == "run")
    return [words[0], *file, *words[1:place], *words[place + 1 :]]


class OneLineParser(argparse.ArgumentParser):
    """Wrong usage gets one line, as all wrong input does."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_INPUT, f"twoclocks: {message}; see {self.prog} --help\n")


def make_parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="twoclocks",
        allow_abbrev=False,
        description="When does a generative model learn the rule behind its data, and when does it start to copy?",
    )
    parser.add_argument("--version", action="version", version=f"twoclocks {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")

    def add(name: str, call: Any, help: str, settings: str | None = None) -> argparse.ArgumentParser:
        """``settings``: what a command says about the further settings that it takes."""
        command = subparsers.add_parser(name, help=help, description=help, epilog=settings, allow_abbrev=False)
        command.set_defaults(call=call, takes_settings=settings is not None)
        return command

    demo = add(
        "demo",
        commands.demo_command,
        "train a small DiT and a small GPT, print their clocks, look at why, write a report",
        SETTINGS_HINT,
    )
    demo.add_argument("--out", type=Path, default=Path("demo"), help="folder for the two runs and the report")
    demo.add_argument("--json", action="store_true", help="print the result as JSON")

    told = "train and evaluate one model as a preset or a YAML file says"
    run = add("run", commands.run_command, told, SETTINGS_HINT)
    run.add_argument(
        "preset",
        metavar="[PRESET]",
        help="a preset (see 'twoclocks list presets') or a YAML file; without one, the settings change 'demo'",
    )
    run.add_argument(
        "--out", type=Path, help="run directory (default: runs/NAME); an unfinished run in it is continued"
    )
    run.add_argument(
        "--fork", action="store_true", help="if it holds a run with other settings: go on with a copy beside it"
    )
    run.add_argument(
        "--checkpoint-seconds", type=float, default=30, metavar="S", help="what a crash may cost (default: 30)"
    )
    run.add_argument("--json", action="store_true", help="print the result as JSON")

    told = "train all cells of a grid of settings, here or on a cluster"
    sweep = add("sweep", commands.sweep_command, told, SETTINGS_HINT)
    add_sweep_arguments(sweep)

    add_reading_commands(add)

    bench = add(
        "bench", commands.bench_command, "measure our speed beside the textbook loop and the ceiling of this machine"
    )
    add_bench_arguments(bench)

    listing = add("list", commands.list_command, "show what is registered: presets, rules, models, settings, …")
    listing.add_argument("kind", choices=LISTS, help="what to list")
    listing.add_argument("--json", action="store_true", help="print it as JSON")
    return parser


def add_reading_commands(add: Add) -> None:
    """Commands that read finished or running runs."""
    clocks = add("clocks", commands.clocks_command, "print the clocks of finished or running runs")
    add_runs(clocks)
    clocks.add_argument(
        "--controls", action="store_true", help="also what models of local statistics alone would score"
    )

    fit = add("fit", commands.fit_command, "fit the law τ = a·N^α over runs of several training-set sizes")
    add_runs(fit)
    fit.add_argument("--clock", default="tau_mem", metavar="CLOCK", help="tau_mem (default), tau_rule or tau_gap")
    fit.add_argument("--threshold", type=float, help="read all runs with this threshold in place of their own")

    forecast = add(
        "forecast", commands.forecast_command, "foretell τ_mem at other sizes, or of a run that still trains"
    )
    add_runs(forecast)
    forecast.add_argument("--n", type=int, nargs="+", metavar="N", help="sizes to foretell, the runs being the pilots")
    forecast.add_argument("--pilots", type=Path, nargs="+", default=[], metavar="DIR", help="finished runs like these")

    dissect = add(
        "dissect",
        commands.dissect_command,
        "look at why the clocks tick: views of the model over its training, as sentences and as a page",
        VIEWS_HINT,
    )
    dissect.add_argument("run", type=Path, metavar="DIR", help="run directory, finished or still written")
    dissect.add_argument("--views", nargs="+", metavar="VIEW", help="some of them (default: all that make sense)")
    dissect.add_argument("--device", help="cpu or cuda (default: where the run was trained, if it is at hand)")
    dissect.add_argument("--out", type=Path, default=Path("why.html"), help="the page to write (default: why.html)")
    dissect.add_argument("--json", action="store_true", help="print the numbers behind the sentences as JSON")

    twins = add(
        "twins",
        commands.twins_command,
        "compare two runs that differ in their data alone: when do they begin to differ?",
    )
    twins.add_argument("first", type=Path, metavar="DIR_A", help="run directory, finished or still written")
    twins.add_argument("second", type=Path, metavar="DIR_B", help="a run like it with another data.part")
    twins.add_argument("--rows", type=int, default=1024, metavar="N", help="test strings for outputs (default: 1024)")
    twins.add_argument("--device", help="cpu or cuda (default: where the first was trained, if it is at hand)")
    twins.add_argument("--out", type=Path, default=Path("twins.html"), help="the page to write (default: twins.html)")
    twins.add_argument("--json", action="store_true", help="print the numbers behind the sentences as JSON")

    report = add("report", commands.report_command, "write a page about one or several runs")
    add_runs(report, with_json=False)
    report.add_argument("--out", type=Path, default=Path("report.html"), help="the page to write")

    verify = add("verify", commands.verify_command, "check every byte of run directories against its SHA-256")
    add_runs(verify)


def add_runs(command: argparse.ArgumentParser, with_json: bool = True) -> None:
    command.add_argument("runs", nargs="+", type=Path, metavar="DIR", help="run directories, or folders of them")
    if with_json:
        command.add_argument("--json", action="store_true", help="print the result as JSON")


def add_sweep_arguments(sweep: argparse.ArgumentParser) -> None:
    sweep.add_argument("spec", metavar="SPEC.yaml", help="base, grid and seeds; see docs/sweeps.md")
    sweep.add_argument("--out", type=Path, help="folder for cells and table (default: sweeps/NAME)")
    sweep.add_argument(
        "--executor", default="local", metavar="NAME", help="local (default) or ray; --executor.KEY sets"
    )
    sweep.add_argument("--workers", type=int, default=0, metavar="N", help="cells at a time (default: as many as fit)")
    sweep.add_argument("--retries", type=int, default=3, metavar="N", help="tries after the first (default: 3)")
    sweep.add_argument("--checkpoint-seconds", type=float, default=30, metavar="S", help="what a crash may cost")
    sweep.add_argument("--plan", action="store_true", help="list the cells and run nothing")
    sweep.add_argument("--status", action="store_true", help="say where the cells stand and run nothing")
    sweep.add_argument("--json", action="store_true", help="print the status as JSON")


def add_bench_arguments(bench: argparse.ArgumentParser) -> None:
    bench.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    bench.add_argument(
        "--parts", nargs="+", metavar="PART", help="steps, evaluations, where, growth (default: all of them)"
    )
    bench.add_argument("--seconds", type=float, default=6.0, metavar="S", help="spent on each step (default: 6)")
    bench.add_argument("--out", type=Path, help="folder for bench.json and the figures (default: none)")
    bench.add_argument("--json", action="store_true", help="print the record as JSON")


if __name__ == "__main__":
    raise SystemExit(main())
