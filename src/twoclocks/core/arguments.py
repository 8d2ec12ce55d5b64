"""The one reader of command-line words: what the parser of a command knows, and settings such as ``--data.n 512``."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from twoclocks.core.config import merge, nested
from twoclocks.core.errors import UserError
from twoclocks.core.exit_codes import EXIT_BAD_INPUT
from twoclocks.core.text import one_line, shortened, show
from twoclocks.core.yaml_files import parse_yaml

MOST_ARGUMENTS = 10_000


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line on stderr and exit code 2; it knows the names of its own options."""

    def __init__(self, **named: Any) -> None:
        self.own_options: set[str] = set()
        super().__init__(**{"allow_abbrev": False, **named})

    def add_argument(self, *names: Any, **named: Any) -> argparse.Action:
        action = super().add_argument(*names, **named)
        self.own_options.update(action.option_strings)
        return action

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_INPUT, one_line(f"twoclocks: {message}; see {self.prog} --help") + "\n")


def check_words(arguments: Sequence[str]) -> None:
    """Refuse what no shell can pass, and so no file name can be: a NUL character, which a Python caller may give."""
    for argument in arguments:
        if "\0" in argument:
            raise UserError(f"{show(argument)} has a NUL character; remove it")


def split_settings(
    arguments: Sequence[str], own_options: set[str] | frozenset[str] = frozenset()
) -> tuple[dict[str, Any], list[str]]:
    """Settings as a nested mapping, and all other arguments in order.

    A setting is an option that is not among ``own_options``; it has exactly one value.

    >>> split_settings(["--data.n", "512", "demo", "--json", "--rule.group=3"], {"--json"})
    ({'data': {'n': 512}, 'rule': {'group': 3}}, ['demo', '--json'])
    """
    settings: dict[str, Any] = {}
    rest: list[str] = []
    if len(arguments) > MOST_ARGUMENTS:
        raise UserError(f"{len(arguments):,} arguments: use at most {MOST_ARGUMENTS:,}; write settings to a YAML file")
    queue = deque(arguments)
    while queue:
        argument = queue.popleft()
        option, equals, text = argument.partition("=")
        if not option.startswith("--") or option == "--" or option in own_options:
            rest.append(argument)
            continue
        key = option[2:]
        if not equals:
            if not queue or queue[0].startswith("--"):
                raise UserError(_missing_value(key, own_options))
            text = queue.popleft()
        settings = merge(settings, nested({key: parse_yaml(text, source=option)}))
    return settings, rest


def _missing_value(key: str, own_options: set[str] | frozenset[str]) -> str:
    """The error for a setting without a value; it may be an option that was misspelt."""
    close = get_close_matches(f"--{key}", own_options, n=1, cutoff=0.75)
    if close:
        return f"'--{key}' is not an option; did you mean {close[0]!r}?"
    return f"{shortened(key)}: its value is missing; write --{shortened(key)} VALUE"


def unknown_option(argument: str, command: str, own_options: set[str] | frozenset[str] = frozenset()) -> UserError:
    """The error for an argument that a command does not take."""
    close = get_close_matches(argument.partition("=")[0], own_options, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}? See" if close else "see"
    return UserError(f"{show(argument)} is not an option of {command}; {hint} twoclocks {command} --help")


def as_overrides(overrides: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Changed settings as a nested mapping, from command-line arguments or from a mapping with dotted keys."""
    if isinstance(overrides, Mapping):
        return nested(overrides)
    settings, rest = split_settings(overrides)
    if rest:
        raise UserError(f"{show(rest[0])} is not an option; settings look like --data.n 512")
    return settings
