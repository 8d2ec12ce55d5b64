"""Time and peak memory of packing generated texts of two sizes, one process per measurement.

    python benchmarks/text_memory.py --out results/text_memory.json

Memory is bounded if the larger text does not need more than the smaller one, apart from what every document needs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.data.text import pack
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

MEGABYTES = (100, 1000)
CASES = (("letters", "file"), ("letters", "paragraph"), ("characters", "block"), ("bytes", "block"))
LINE, LINES = 80, 8  # characters per line, lines per paragraph


def write_text(path: Path, megabytes: int, seed: int) -> None:
    """Random words with some letters of two bytes, in paragraphs."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyzéü"), length)) for length in rng.integers(2, 9, 5000)]
    with path.open("w", encoding="utf-8") as stream:
        while stream.tell() < megabytes * 1_000_000:
            text = " ".join(words[i] for i in rng.integers(0, len(words), 200_000))
            lines = [text[i : i + LINE] for i in range(0, len(text), LINE)]
            stream.writelines(f"{line}\n" if (i + 1) % LINES else f"{line}\n\n" for i, line in enumerate(lines))


def peak_memory() -> int:
    """MiB that this process had at most, from Linux; what getrusage says begins with the peak of the parent."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"))
    assert found is not None
    return round(int(found[1]) / 1024)


def measure(folder: Path, tokens: str, documents: str) -> dict[str, Any]:
    """Pack in this process, whose peak memory is then that of packing."""
    before = peak_memory()
    begin = time.perf_counter()
    packed = pack(folder, folder.parent / "packed", tokens=tokens, documents=documents)
    seconds = time.perf_counter() - begin
    counted = {"documents": len(packed), "number of tokens": len(packed.tokens), "seconds": round(seconds, 1)}
    return {**counted, "MiB before": before, "MiB at the peak": peak_memory()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=3, metavar=("FOLDER", "TOKENS", "DOCUMENTS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(Path(arguments.one[0]), *arguments.one[1:])))
        return
    rows = []
    for megabytes in MEGABYTES:
        with tempfile.TemporaryDirectory(dir=".", prefix="text_memory-") as place:
            folder = Path(place) / "texts"
            folder.mkdir()
            for seed, name in enumerate(("a.txt", "b.txt")):
                write_text(folder / name, megabytes // 2, seed)
            for tokens, documents in CASES:
                command = [sys.executable, __file__, "--one", str(folder), tokens, documents]
                found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                rows.append({"megabytes": megabytes, "tokens": tokens, "documents are": documents, **found})
                print(rows[-1], flush=True)
    if arguments.out:
        same = {"command": f"python benchmarks/text_memory.py --out results/{arguments.out.name}"}
        origin = {"commit": commit(), "versions": versions(), "machine": machine("cpu")}
        write_json(arguments.out, {"what": "time and peak memory of packing text", **same, **origin, "rows": rows})


if __name__ == "__main__":
    main()
