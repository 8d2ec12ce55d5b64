"""YAML of settings, from files and command lines.

Whatever a file contains, reading it takes a bounded time and gives a value of a bounded size: aliases count as often
as they are used, so a few hundred bytes of aliases to aliases cannot become gigabytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twoclocks.core.errors import UserError
from twoclocks.core.reading import read_file

MOST_BYTES = 1_000_000  # per file


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    fix = "give a preset name or a YAML file"
    try:
        text = read_file(path, MOST_BYTES, fix=fix).decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not a text file; {fix}") from None
    value = parse_yaml(text, source=str(path))
    if not isinstance(value, dict):
        found = "nothing" if value is None else "a list" if isinstance(value, list) else "one value"
        raise UserError(f"{path}: holds {found}, not settings; write keys and values such as 'base: demo'")
    return value


def parse_yaml(text: str, source: str) -> Any:
    """YAML's safe subset with YAML 1.2's numbers: 1e-4 is a float, 020 is 20, 1:30 and dates are strings."""
    import yaml  # 20 ms, which commands without settings need not wait for

    from twoclocks.core.strict_yaml import StrictLoader, UnusableError

    if len(text) > MOST_BYTES:
        raise UserError(f"{source}: has {len(text):,} characters; use at most {MOST_BYTES:,}")
    try:
        return StrictLoader(text).get_single_data()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "a character that YAML does not allow"
        if isinstance(error, UnusableError):
            raise UserError(f"{source}:{where} {problem}") from None
        raise UserError(f"{source}:{where} is not valid YAML ({problem}); check quotes and indentation") from None
    except (ValueError, RecursionError):
        raise UserError(f"{source}: holds a number or a nesting that is too large; check it") from None
