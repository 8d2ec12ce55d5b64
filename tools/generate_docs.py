"""Fill the generated parts of README.md and docs/ from the registries, the source tree and results/.

    python tools/generate_docs.py          rewrite the parts between the markers
    python tools/generate_docs.py --check  exit 1 if they are out of date

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``; docparts/ has one function per part.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docparts import PARTS
from docparts.formatting import ROOT

from twoclocks.store.files import write_atomic


def fill(text: str) -> str:
    """The text of a page with all its generated parts up to date."""
    for name, make in PARTS.items():
        if f"<!-- generated: {name} -->" not in text:
            continue
        pattern = re.compile(rf"(<!-- generated: {name} -->\n).*?(\n?<!-- end: {name} -->)", re.DOTALL)
        part = f"<!-- generated: {name} -->\n{make()}\n<!-- end: {name} -->"
        text = pattern.sub(lambda _, part=part: part, text)
    return text


def pages() -> list[Path]:
    """Every page that may have generated parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def main() -> int:
    stale = 0
    for path in pages():
        old = path.read_text(encoding="utf-8")
        new = fill(old)
        if "--check" in sys.argv:
            print(f"{path.name} is up to date" if new == old else f"{path.name} is out of date; run make docs")
            stale += new != old
        elif new != old:
            write_atomic(path, new.encode())
    return int(stale > 0)


if __name__ == "__main__":
    raise SystemExit(main())
