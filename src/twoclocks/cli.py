"""The command line: parses and calls; no logic. Bad input: one line on stderr and exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from twoclocks import __version__
from twoclocks.commands import COMMANDS
from twoclocks.core.address_space import NUMPY, TORCH, check_address_space, memory_errors_as_user_errors
from twoclocks.core.arguments import OneLineParser, check_words, split_settings, unknown_option
from twoclocks.core.errors import UserError
from twoclocks.core.exit_codes import EXIT_BAD_INPUT, EXIT_DISK, EXIT_DIVERGED, EXIT_INTERRUPTED, EXIT_STOPPED
from twoclocks.core.logging import log_to_stderr
from twoclocks.core.output import guarded_output
from twoclocks.core.text import one_line, show

# What commands import, in MB; all others import torch.
MEMORY = {"verify": 0, "clocks": NUMPY, "list": NUMPY, "data": NUMPY}


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

    for module in COMMANDS:
        module.add_command(add)
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


if __name__ == "__main__":
    raise SystemExit(main())
