"""Time of the exact search for verbatim runs and for extracted pieces in training texts of up to four million tokens.

    OMP_NUM_THREADS=1 python benchmarks/verbatim_runs.py --out results/verbatim_runs.json

Three kinds of text: tokens drawn uniformly, tokens with the frequencies of words (Zipf), and one text that is repeated
ten times, which is the hardest for a suffix array. A few runs are compared with brute force. Everything runs on one
thread; where other processes use the cores, read the CPU time, which they do not change as much.
"""

from __future__ import annotations

import argparse
import logging
import time
import tracemalloc
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.monitor.criteria.extractable import Extractable
from twoclocks.monitor.criteria.verbatim import Verbatim, VerbatimMatcher
from twoclocks.monitor.training_set import TrainingSet
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

Tokens = np.ndarray[Any, Any]
VOCABULARY, LENGTH, SAMPLES, REPEATS, CHECKED = 50_000, 256, 1_000, 3, 3
SIZES = (100_000, 1_000_000, 4_000_000)


def uniform(n: int, rng: np.random.Generator) -> Tokens:
    return rng.integers(0, VOCABULARY, n)


def words(n: int, rng: np.random.Generator) -> Tokens:
    """Tokens whose frequency falls with their rank, as that of words does."""
    weights = 1 / np.arange(1, VOCABULARY + 1)
    return rng.choice(VOCABULARY, n, p=weights / weights.sum())


def repeated(n: int, rng: np.random.Generator) -> Tokens:
    """One text ten times, with one other token at the end of each."""
    part = words(n // 10 - 1, rng)
    return np.concatenate([[*part, VOCABULARY + i] for i in range(10)])


KINDS: dict[str, Callable[[int, np.random.Generator], Tokens]] = {
    "uniform": uniform,
    "frequencies of words": words,
    "one text ten times": repeated,
}


def texts_of(tokens: Tokens, documents: int) -> list[tuple[int, ...]]:
    """Documents of about equal length."""
    return [tuple(part.tolist()) for part in np.array_split(tokens, documents)]


def best(action: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Best wall and CPU time in seconds of several repetitions, and what the last one returned."""
    times = []
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        found = action()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    wall, cpu = (round(min(kind), 4) for kind in zip(*times, strict=True))
    return {"wall": wall, "cpu": cpu}, found


def peak_of(action: Callable[[], Any]) -> int:
    """Most bytes that were allocated at once."""
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def check(matcher: VerbatimMatcher, samples: list[tuple[int, ...]], texts: list[tuple[int, ...]]) -> None:
    """Assert that the runs of a few samples are those of brute force."""
    lengths = matcher.longest_runs(samples[:CHECKED]).lengths
    for sample, length in zip(samples, lengths.tolist(), strict=False):
        blocks = (SequenceMatcher(None, text, sample, autojunk=False).find_longest_match() for text in texts)
        assert length == max(block.size for block in blocks)


def measured(kind: str, size: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    tokens = KINDS[kind](size, rng)
    documents = texts_of(tokens, 7 if kind == "one text ten times" else size // 1000)
    train = TrainingSet([*documents, (0,)])  # of different lengths: texts
    criterion = Verbatim(50)
    prepare, matcher = best(lambda: criterion.matcher(train))
    samples = [tuple(words(LENGTH, rng).tolist()) for _ in range(SAMPLES // 2)]
    starts = rng.integers(0, size - LENGTH, SAMPLES // 2)
    samples += [(*tokens[i : i + LENGTH // 2].tolist(), *words(LENGTH // 2, rng).tolist()) for i in starts]
    look, _ = best(lambda: matcher(samples))
    if size == SIZES[0]:
        check(matcher, samples[::300], documents)
    pieces = np.unique(tokens[: size // LENGTH * LENGTH].reshape(-1, LENGTH), axis=0)
    extract = Extractable(32, 50)
    pieces_prepare, compare = best(lambda: extract.matcher(TrainingSet(pieces)))
    prompted = pieces[rng.integers(0, len(pieces), SAMPLES)]
    prompted[: SAMPLES // 2, 40:] = 0
    pieces_look, found = best(lambda: compare(prompted))
    assert SAMPLES // 2 <= found.copied.sum() < SAMPLES // 2 + 20  # equal prefixes may be continued in two ways
    return {
        "text": kind,
        "training tokens": size,
        "documents": len(documents),
        "prepare_seconds": prepare,
        "prepare_peak_bytes": peak_of(lambda: criterion.matcher(train)),
        "kept_bytes": int(matcher.suffixes.order.nbytes + matcher.suffixes.rank.nbytes),
        "look_seconds": look,
        "pieces": len(pieces),
        "pieces_prepare_seconds": pieces_prepare,
        "pieces_look_seconds": pieces_look,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    logging.getLogger("twoclocks").setLevel(logging.ERROR)  # a text of one token makes the rows texts; it is short
    rows = []
    for size in SIZES:
        for kind in KINDS:
            rows.append(measured(kind, size))
            print(rows[-1], flush=True)
    result = {
        "command": f"OMP_NUM_THREADS=1 python benchmarks/verbatim_runs.py --out results/{arguments.out.name}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cpu"),
        "settings": {"samples": SAMPLES, "tokens per sample": LENGTH, "repeats": REPEATS, "run": 50, "prefix": 32},
        "rows": rows,
    }
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
