"""Fetch axe-core, which checks pages for accessibility, for the browser tests: `make browser`.

It comes from the npm registry by npm itself. Only the file with the SHA-256 below is taken.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.14.0"
SHA256 = "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af"
TARGET = Path(__file__).resolve().parent.parent / ".venv" / "axe" / "axe.min.js"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"axe-core@{VERSION}"], cwd=folder, check=True, capture_output=True)
        archive = next(Path(folder).glob("*.tgz"))
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != SHA256:
            sys.exit(f"axe-core {VERSION}: SHA-256 is {found}, expected {SHA256}; nothing was written")
        with tarfile.open(archive) as opened:
            content = opened.extractfile("package/axe.min.js")
            assert content is not None
            TARGET.parent.mkdir(parents=True, exist_ok=True)
            TARGET.write_bytes(content.read())


if __name__ == "__main__":
    main()
