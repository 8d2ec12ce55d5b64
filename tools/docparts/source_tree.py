"""The source layout: every Python file with the first line of its docstring."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

from docparts.formatting import ROOT, as_table

SOURCE = ROOT / "src" / "twoclocks"
BESIDE = ("benchmarks", "studies", "tools")  # programs outside of the package


def source_layout() -> str:
    """One table per folder: its purpose in a line above, a row per file."""
    package = [SOURCE, *sorted(path for path in SOURCE.rglob("*") if path.is_dir())]
    beside = [path for name in BESIDE for path in (ROOT / name, *sorted((ROOT / name).rglob("*")))]
    parts = []
    for folder in [*package, *(path for path in beside if path.is_dir())]:
        files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        if not files:
            continue
        rows = [{"file": f"`{path.name}`", "purpose": purpose(path)} for path in files]
        title = f"**`{folder.relative_to(ROOT)}/`** {purpose(folder / '__init__.py')}".rstrip()
        parts.append(f"{title}\n\n{as_table(rows)}")
    return "\n\n".join(parts)


def purpose(path: Path) -> str:
    """The first line of a file's docstring; empty if there is none."""
    if not path.exists():
        return ""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0].replace("``", "`")


PARTS: dict[str, Callable[[], str]] = {"source layout": source_layout}
