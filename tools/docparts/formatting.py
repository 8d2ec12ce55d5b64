"""What the generated parts share: the repository's root, stored results, Markdown tables, intervals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

# Programs and results that moved after they were measured: a stored command names the old place, a reader needs the
# new one.
MOVED = {
    "results/image_quality2.json": "results/image_quality.json",
    "benchmarks/demo_seeds.py": "studies/demo_seeds.py",
    "benchmarks/onset_errors.py": "studies/onset_errors.py",
    "benchmarks/small_law.py": "studies/small_law.py",
}


def read_result(name: str) -> dict[str, Any]:
    """One file of results/ as a mapping."""
    result: dict[str, Any] = json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))
    return result


def command_of(result: Mapping[str, Any]) -> str:
    """The command that measured a result, with the program where it is today."""
    command = str(result["command"])
    for old, new in MOVED.items():
        command = command.replace(old, new)
    return command


def source_of(name: str, result: Mapping[str, Any], where: str = "") -> str:
    """The sentence under a table: machine, command, and a link to the stored result."""
    place = f"{where}, " if where else ""
    return f"{place}`{command_of(result)}` ([{name}](../results/{name}))."


def interval(onset: Mapping[str, Any]) -> str:
    """The lower and upper end of an observed onset."""
    return f"{onset['lower']:,.0f}–{onset['upper']:,.0f}"


def as_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows with the same keys as a Markdown table."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
