"""The command line: parses and calls; no logic. Bad input: one line on stderr and exit code 2."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from twoclocks import __version__
from twoclocks.core.errors import UserError
from twoclocks.core.speech import speak

EXIT_BAD_INPUT, EXIT_DIVERGED, EXIT_STOPPED = 2, 3, 4
EXIT_DISK, EXIT_DAMAGED, EXIT_FAILED, EXIT_INTERRUPTED = 5, 6, 7, 130
FLAGS = ("--json", "--fork", "--plan", "--status", "--help", "-h")  # words that take no value
DEMO_PRESETS = ("demo", "demo-gpt")
LISTS = ("presets", "rules", "encodings", "models", "objectives", "executors", "metrics", "settings")


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

    speak()
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
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")

    def add(name: str, call: Any, help: str, takes_settings: bool = False) -> argparse.ArgumentParser:
        epilog = "Any setting can follow: --data.n 512 --training.seed 1 (see 'twoclocks list settings')."
        command = commands.add_parser(
            name, help=help, description=help, epilog=epilog if takes_settings else None, allow_abbrev=False
        )
        command.set_defaults(call=call, takes_settings=takes_settings)
        return command

    demo = add("demo", demo_command, "train a small DiT and a small GPT, print their clocks, write a report", True)
    demo.add_argument("--out", type=Path, default=Path("demo"), help="folder for the two runs and the report")
    demo.add_argument("--json", action="store_true", help="print the result as JSON")

    run = add("run", run_command, "train and evaluate one model as a preset or a YAML file says", True)
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

    sweep = add("sweep", sweep_command, "train all cells of a grid of settings, here or on a cluster", True)
    add_sweep_arguments(sweep)

    clocks = add("clocks", clocks_command, "print the clocks of finished or running runs")
    clocks.add_argument("runs", nargs="+", type=Path, metavar="DIR", help="run directories, or folders of them")
    clocks.add_argument("--json", action="store_true", help="print them as JSON")

    report = add("report", report_command, "write a page about one or several runs")
    report.add_argument("runs", nargs="+", type=Path, metavar="DIR", help="run directories, or folders of them")
    report.add_argument("--out", type=Path, default=Path("report.html"), help="the page to write")

    verify = add("verify", verify_command, "check every byte of run directories against its SHA-256")
    verify.add_argument("runs", nargs="+", type=Path, metavar="DIR", help="run directories, or trees of them")
    verify.add_argument("--json", action="store_true", help="print the findings as JSON")

    bench = add("bench", bench_command, "measure our speed beside the textbook loop and the ceiling of this machine")
    add_bench_arguments(bench)

    listing = add("list", list_command, "show what is registered: presets, rules, models, settings, …")
    listing.add_argument("kind", choices=LISTS, help="what to list")
    listing.add_argument("--json", action="store_true", help="print it as JSON")
    return parser


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


def demo_command(arguments: argparse.Namespace) -> None:
    from twoclocks.experiment import load_settings, run
    from twoclocks.report.console import show_clocks, watch
    from twoclocks.report.page import write_report
    from twoclocks.report.summary import summarise
    from twoclocks.store import check_free

    chosen = [load_settings(preset, arguments.overrides) for preset in DEMO_PRESETS]
    check_free(arguments.out, besides=[*(settings.name for settings in chosen), "report.html", "report.png"])
    if len({settings.name for settings in chosen}) < len(chosen):
        raise UserError(f"name: {chosen[0].name!r} would name both runs of the demo; leave it out")
    runs = []
    for settings in chosen:
        with watch(settings) as observe:
            runs.append(run(settings, arguments.out / settings.name, observe))
    page = write_report(runs, arguments.out / "report.html")
    if arguments.json:
        print(json.dumps({"runs": [summarise(run) for run in runs], "report": str(page)}, indent=2))
    else:
        show_clocks(runs)
        print(f"Report: {page}")


def run_command(arguments: argparse.Namespace) -> None:
    from twoclocks.experiment import load_settings, run
    from twoclocks.report.console import show_clocks, watch
    from twoclocks.report.summary import summarise

    settings = load_settings(arguments.preset or None, arguments.overrides)
    out = arguments.out if arguments.out is not None else Path("runs") / settings.name
    with watch(settings) as observe:
        done = run(settings, out, observe, fork=arguments.fork, checkpoint_seconds=arguments.checkpoint_seconds)
    if arguments.json:
        print(json.dumps(summarise(done), indent=2))
    else:
        show_clocks([done])
        print(f"Run: {done.path}")


def sweep_command(arguments: argparse.Namespace) -> int:
    from twoclocks.report.console import show_rows, watch_sweep
    from twoclocks.sweeps import Sweep, executor_of, read_plan, run_sweep

    executor, overrides = executor_of(arguments.executor, arguments.workers, arguments.overrides)
    plan = read_plan(Path(arguments.spec), overrides)
    sweep = Sweep(plan, arguments.out if arguments.out is not None else Path("sweeps") / plan.name)
    if not arguments.plan and not arguments.status:
        with watch_sweep() as look:
            sweep = run_sweep(
                plan,
                sweep.root,
                executor,
                look,
                retries=arguments.retries,
                checkpoint_seconds=arguments.checkpoint_seconds,
            )
    if arguments.json:
        print(json.dumps(sweep.status(), indent=2))
    else:
        show_rows(sweep.lines())
        print(sweep.summary())
    return EXIT_FAILED if sweep.counts()["failed"] else 0


def clocks_command(arguments: argparse.Namespace) -> None:
    from twoclocks.experiment import load_run
    from twoclocks.report.console import show_clocks
    from twoclocks.report.summary import summarise
    from twoclocks.store import runs_in

    runs = [load_run(path) for folder in arguments.runs for path in runs_in(folder)]
    if arguments.json:
        print(json.dumps([summarise(run) for run in runs], indent=2))
    else:
        show_clocks(runs)


def report_command(arguments: argparse.Namespace) -> None:
    from twoclocks.experiment import load_run
    from twoclocks.report.page import write_report
    from twoclocks.store import runs_in

    runs = [load_run(path) for folder in arguments.runs for path in runs_in(folder)]
    print(write_report(runs, arguments.out))


def verify_command(arguments: argparse.Namespace) -> int:
    from twoclocks.report.console import show_findings
    from twoclocks.store import verify_tree

    found = [findings for folder in arguments.runs for findings in verify_tree(folder)]
    if arguments.json:
        print(json.dumps([{**vars(one), "path": str(one.path)} for one in found], indent=2))
    else:
        show_findings(found)
    return 0 if all(one.intact for one in found) else EXIT_DAMAGED


def bench_command(arguments: argparse.Namespace) -> None:
    from twoclocks.bench import suite
    from twoclocks.report.console import show_rows
    from twoclocks.store.files import make_folder

    parts = arguments.parts if arguments.parts is not None else suite.PARTS
    tell = logging.getLogger("twoclocks").info
    if arguments.out is not None:
        make_folder(arguments.out)  # before the minutes that measuring takes
    record = suite.measure(arguments.device, parts, arguments.seconds, tell)
    written = suite.write(record, arguments.out) if arguments.out is not None else []
    if arguments.json:
        print(json.dumps(record, indent=2))
        return
    for title, rows in suite.tables(record).items():
        print(f"\n{title}")
        show_rows(rows)
    for path in written:
        print(path)


def list_command(arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_rows
    from twoclocks.report.listing import list_rows, registry_rows
    from twoclocks.sweeps import EXECUTORS

    rows = registry_rows(EXECUTORS) if arguments.kind == "executors" else list_rows(arguments.kind)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show_rows(rows)


if __name__ == "__main__":
    raise SystemExit(main())
