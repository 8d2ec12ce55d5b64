"""The command line: parses and calls; no logic. Bad input: one line on stderr and exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twoclocks import __version__, commands
from twoclocks.bench_command import add_bench_command
from twoclocks.core.address_space import NUMPY, TORCH, check_address_space, memory_errors_as_user_errors
from twoclocks.core.arguments import EXIT_BAD_INPUT, OneLineParser, check_words, split_settings, unknown_option
from twoclocks.core.errors import UserError
from twoclocks.core.logging import log_to_stderr
from twoclocks.core.output import guarded_output
from twoclocks.core.text import one_line, show
from twoclocks.data_command import add_data_command
from twoclocks.plan_command import add_plan_command
from twoclocks.widen_command import add_widen_command

EXIT_DIVERGED, EXIT_STOPPED, EXIT_DISK, EXIT_INTERRUPTED = 3, 4, 5, 130
SETTINGS_HINT = "Any setting can follow: --data.n 512 --training.seed 1 (see 'twoclocks list settings')."
VIEWS_HINT = "Settings of views can follow: --field.grid 41 --spectrum.rows 256 (see 'twoclocks list views')."
EXECUTOR_HINT = "Settings of the executor can follow: --executor.cells_per_gpu 4 (see 'twoclocks list executors')."
LISTS = (
    *("presets", "rules", "encodings", "models", "objectives", "executors", "metrics", "views", "settings"),
    *("interventions", "templates"),
)
MEMORY = {
    "verify": 0,
    "clocks": NUMPY,
    "list": NUMPY,
    "data": NUMPY,
}  # what commands import, in MB; all others import torch
_Add = Callable[..., OneLineParser]


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the command ``twoclocks``; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    with guarded_output() as output:
        try:
            code = _answer(given)
        except SystemExit:  # of the parser, after --help or wrong usage
            output.flush()
            if output.lost is None:
                raise
            code = 0
        output.flush()
        if output.lost is None:
            return code
        _report(f"standard output: {output.lost.strerror}; what was computed is stored, but not all of it was printed")
        return code or EXIT_DISK


def _answer(given: list[str]) -> int:
    """Parse and run a command; errors that the user can correct become one line and an exit code."""
    try:
        parser, subparsers = make_parser()
        if not given:
            parser.print_help()
            return 0
        log_to_stderr()
        check_words(given)
        with memory_errors_as_user_errors():
            return _call(_parse(parser, subparsers, given))
    except KeyboardInterrupt:
        _report("interrupted; what was evaluated so far is stored")
        return EXIT_INTERRUPTED
    except (UserError, OSError) as error:
        _report(_describe(error))
        return _exit_code(error)


def _report(message: str) -> None:
    """Print one line about the command itself to stderr."""
    print(one_line(f"twoclocks: {message}"), file=sys.stderr)


def _call(arguments: argparse.Namespace) -> int:
    """Import the user's files, then run the command."""
    from twoclocks.training.stopping import StoppedError

    check_address_space(MEMORY.get(arguments.command, TORCH))
    if arguments.imports:
        from twoclocks.core.plugins import import_file

        for path in arguments.imports:
            import_file(path)
    try:
        return arguments.call(arguments) or 0
    except StoppedError as error:
        _report(f"{error}; everything is stored, the same command continues")
        return EXIT_STOPPED


def _exit_code(error: Exception) -> int:
    from twoclocks.store.files import DiskError
    from twoclocks.store.lock import LostLockError
    from twoclocks.training.errors import DivergedError

    if isinstance(error, DivergedError):
        return EXIT_DIVERGED
    lost = isinstance(error, LostLockError) or (isinstance(error, DiskError) and error.fault)
    return EXIT_DISK if lost else EXIT_BAD_INPUT


def _describe(error: Exception) -> str:
    """An error in words; one of the operating system with the file it is about."""
    if isinstance(error, UserError) or not isinstance(error, OSError):
        return str(error)
    where = error.filename if error.filename is not None else "disk"
    return f"{where}: {error.strerror or error}; choose a path that can be read and written"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """What a command line asks for: the command's own options, and ``overrides``, the settings that it changes."""
    return _parse(*make_parser(), arguments)


def _parse(parser: OneLineParser, subparsers: dict[str, OneLineParser], arguments: Sequence[str]) -> argparse.Namespace:
    command = arguments[0]
    if command not in subparsers:
        return parser.parse_args(arguments)  # --help, --version, or a command that does not exist
    own = subparsers[command].own_options
    settings: dict[str, Any] = {}
    takes_settings = subparsers[command].get_default("takes_settings")
    rest = list(arguments[1:])
    if takes_settings:
        settings, rest = split_settings(rest, own)
    found, unknown = parser.parse_known_args([command, *rest])
    if unknown and takes_settings:
        raise UserError(f"{show(unknown[0])} is not an option; settings look like --data.n 512")
    if unknown:
        raise unknown_option(unknown[0], command, own)
    found.overrides = settings
    return found


def make_parser() -> tuple[OneLineParser, dict[str, OneLineParser]]:
    """The parser of the whole command line, and that of each command by name."""
    parser = OneLineParser(
        prog="twoclocks",
        description="Find when a generative model learns the rule behind its data, and when it starts to copy.",
    )
    parser.add_argument("--version", action="version", version=f"twoclocks {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    found: dict[str, OneLineParser] = {}

    def add(name: str, call: Any, help: str, settings: str | None = None) -> OneLineParser:
        """``settings``: the hint about the settings that the command takes besides its options."""
        command = subparsers.add_parser(name, help=help, description=help, epilog=settings)
        command.set_defaults(call=call, takes_settings=settings is not None)
        found[name] = command
        return command

    _add_training_commands(add)
    _add_reading_commands(add)
    _add_other_commands(add)
    for command in found.values():
        command.add_argument(
            "--import",
            dest="imports",
            action="append",
            default=[],
            metavar="FILE.py",
            help="import a Python file that registers a rule, a model, … of your own; can be repeated",
        )
    return parser, found


def _add_training_commands(add: _Add) -> None:
    """Commands that train."""
    demo = add(
        "demo",
        commands.demo_command,
        "train a small DiT and a small GPT, print their clocks, analyse their checkpoints, write a report",
        SETTINGS_HINT,
    )
    demo.add_argument(
        "--out",
        type=Path,
        default=Path("demo"),
        metavar="DIR",
        help="folder for the two runs and the report (default: demo)",
    )
    demo.add_argument("--json", action="store_true", help="print the result as JSON")

    run = add("run", commands.run_command, "train and evaluate one model", SETTINGS_HINT)
    run.add_argument(
        "preset",
        nargs="?",
        metavar="PRESET",
        help="a preset (see 'twoclocks list presets') or a YAML file (default: demo)",
    )
    run.add_argument(
        "--out", type=Path, metavar="DIR", help="run directory (default: runs/NAME); an unfinished run is continued"
    )
    run.add_argument(
        "--fork",
        action="store_true",
        help="if --out holds a run with other settings, copy it and continue the copy with these",
    )
    _add_checkpoint_seconds(run)
    run.add_argument("--json", action="store_true", help="print the result as JSON")

    sweep = add("sweep", commands.sweep_command, "train one model per cell of a grid of settings", SETTINGS_HINT)
    sweep.add_argument("spec", metavar="SPEC.yaml", help="YAML file with base, grid and seeds; see docs/sweeps.md")
    sweep.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the runs and the table (default: sweeps/NAME)"
    )
    _add_executor(sweep)
    sweep.add_argument("--retries", type=int, default=3, metavar="N", help="attempts after the first (default: 3)")
    _add_checkpoint_seconds(sweep)
    sweep.add_argument("--plan", action="store_true", help="list the cells and train nothing")
    sweep.add_argument("--status", action="store_true", help="print the status of each cell and train nothing")
    sweep.add_argument("--json", action="store_true", help="print the status as JSON")

    reproduce = add(
        "reproduce",
        commands.reproduce_command,
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
    _add_executor(reproduce)
    reproduce.add_argument("--json", action="store_true", help="print the result as JSON")
    add_widen_command(add, _add_executor)


def _add_reading_commands(add: _Add) -> None:
    """Commands that read finished or running runs."""
    clocks = add(
        "clocks", commands.clocks_command, "print τ_rule (the rule is learned) and τ_mem (copying starts) of runs"
    )
    _add_runs(clocks)
    clocks.add_argument(
        "--controls",
        action="store_true",
        help="also print the scores of baselines that know only local statistics of the training set",
    )

    fit = add("fit", commands.fit_command, "fit the law τ = a·N^α to runs with different training-set sizes N")
    _add_runs(fit)
    fit.add_argument(
        "--clock", default="tau_mem", metavar="CLOCK", help="tau_mem (default), tau_rule, tau_gap or tau_ext"
    )
    fit.add_argument("--threshold", type=float, metavar="X", help="use this threshold in place of that of each run")

    forecast = add(
        "forecast",
        commands.forecast_command,
        "predict τ_mem (or τ_ext) at other training-set sizes, or of a run that is still training",
    )
    _add_runs(forecast)
    forecast.add_argument(
        "--clock", default="tau_mem", metavar="CLOCK", help="tau_mem (default), or tau_ext of runs on text"
    )
    forecast.add_argument("--n", type=int, nargs="+", metavar="N", help="training-set sizes to predict from these runs")
    forecast.add_argument(
        "--pilots",
        type=Path,
        nargs="+",
        default=[],
        metavar="DIR",
        help="finished runs with similar settings, as prior",
    )

    dissect = add(
        "dissect",
        commands.dissect_command,
        "analyse a run's checkpoints: print findings, write an HTML page",
        VIEWS_HINT,
    )
    dissect.add_argument("run", type=Path, metavar="DIR", help="run directory; the run may still be training")
    dissect.add_argument("--views", nargs="+", metavar="VIEW", help="which views (default: all that apply)")
    dissect.add_argument("--device", help="cpu or cuda (default: the device of the run, if it is available)")
    dissect.add_argument("--out", type=Path, metavar="PAGE.html", help="the page (default: DIR-why.html)")
    dissect.add_argument("--json", action="store_true", help="print the numbers behind the findings as JSON")

    twins = add(
        "twins",
        commands.twins_command,
        "compare two runs that differ only in their training samples: from which step on do they differ?",
    )
    twins.add_argument("first", type=Path, metavar="DIR_A", help="run directory; the run may still be training")
    twins.add_argument("second", type=Path, metavar="DIR_B", help="a run with the same settings, except data.part")
    twins.add_argument(
        "--rows", type=int, default=1024, metavar="N", help="test strings on which outputs are compared (default: 1024)"
    )
    twins.add_argument("--device", help="cpu or cuda (default: the device of DIR_A, if it is available)")
    twins.add_argument("--out", type=Path, metavar="PAGE.html", help="the page (default: DIR_A-NAME_B-twins.html)")
    twins.add_argument("--json", action="store_true", help="print the numbers behind the findings as JSON")

    report = add("report", commands.report_command, "write an HTML page about one or more runs")
    _add_runs(report, with_json=False)
    report.add_argument(
        "--out",
        type=Path,
        metavar="PAGE.html",
        help="the page (default: DIR-report.html; for several DIR, report.html beside the first)",
    )
    report.add_argument(
        "--pages",
        action="store_true",
        help="write a page of each run beside it too, to which the page of all runs links",
    )

    add_plan_command(add)
    _add_serve(add)
    verify = add("verify", commands.verify_command, "check every file of run directories against its SHA-256")
    _add_runs(verify)


def _add_serve(add: _Add) -> None:
    serve = add("serve", commands.serve_command, "show runs in a browser while they train: curves, clocks, samples")
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


def _add_other_commands(add: _Add) -> None:
    add_bench_command(add)
    listing = add("list", commands.list_command, "list presets, rules, models, settings, … or templates for your own")
    listing.add_argument("kind", choices=LISTS, metavar="KIND", help=f"one of {', '.join(LISTS)}")
    listing.add_argument("name", nargs="?", metavar="NAME", help="with KIND templates: print this template")
    listing.add_argument("--json", action="store_true", help="print the list as JSON")
    add_data_command(add)


def _add_runs(command: OneLineParser, with_json: bool = True) -> None:
    command.add_argument("runs", nargs="+", type=Path, metavar="DIR", help="run directories, or folders of them")
    if with_json:
        command.add_argument("--json", action="store_true", help="print the result as JSON")


def _add_executor(command: OneLineParser) -> None:
    command.add_argument(
        "--executor",
        default="local",
        metavar="NAME",
        help="local (default) or ray; its settings are --executor.KEY VALUE",
    )
    command.add_argument(
        "--workers", type=int, default=0, metavar="N", help="runs at the same time (default: as many as fit)"
    )


def _add_checkpoint_seconds(command: OneLineParser) -> None:
    command.add_argument(
        "--checkpoint-seconds",
        type=float,
        default=30,
        metavar="S",
        help="seconds between checkpoints: the training time that a crash can cost (default: 30)",
    )


if __name__ == "__main__":
    raise SystemExit(main())
