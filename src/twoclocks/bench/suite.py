"""Everything that ``twoclocks bench`` measures, as one record with its origin, and as figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from twoclocks.bench import curves, growth, steps, where
from twoclocks.bench.workloads import WORKLOADS, Workload
from twoclocks.core.errors import SettingError, UnavailableError
from twoclocks.core.theme import picture
from twoclocks.store.files import make_folder, write_atomic, write_json
from twoclocks.store.provenance import commit, machine, versions

PARTS = ("steps", "evaluations", "where", "growth")


def measure(
    device: str,
    parts: Sequence[str] = PARTS,
    seconds: float = 6.0,
    report: Callable[[str], None] = lambda line: None,
    compiled: bool | None = None,
) -> dict[str, Any]:
    """The record of all parts on one device; ``seconds`` are spent on each training step that is timed.

    ``compiled``: also measure the textbook loop under ``torch.compile``; None: on a GPU.
    """
    check(device, parts, seconds)
    threads = torch.get_num_threads()
    workloads = WORKLOADS[device]
    choice = "" if compiled is None else f" --{'' if compiled else 'no-'}compiled"
    compiles = device != "cpu" if compiled is None else compiled
    record: dict[str, Any] = {
        "command": f"twoclocks bench --device {device} --parts {' '.join(parts)} --seconds {seconds:g}{choice}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine(device),
        "ceiling": steps.ceiling(device),
    }
    try:
        for part in parts:
            report(part)
            torch.set_num_threads(threads)
            if part == "growth":
                rows = growth.measure(device)
                record[part] = {"rows": rows, "exponents": growth.exponents(rows)}
            elif part == "where":
                record[part] = [
                    row for workload in workloads[:2] for row in where.where_rows(workload, device, seconds / 3)
                ]
            elif part == "steps":
                record[part] = [
                    steps.step_row(workload, device, seconds, compiles) for workload in named(part, workloads, report)
                ]
            else:
                record[part] = [
                    steps.evaluation_row(workload, device) for workload in named(part, workloads[:2], report)
                ]
    finally:
        torch.set_num_threads(threads)
    return record


def named(part: str, workloads: list[Workload], report: Callable[[str], None]) -> Iterator[Workload]:
    """The workloads, each reported when it is begun."""
    for workload in workloads:
        report(f"{part}: {workload.label}")
        yield workload


def check(device: str, parts: Sequence[str], seconds: float) -> None:
    if device not in (known := ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])):
        raise UnavailableError("--device", device, f"available: {', '.join(known)}")
    for part in parts:
        if part not in PARTS:
            raise SettingError("--parts", part, f"use some of {', '.join(PARTS)}")
    if not 0 < seconds < math.inf:
        raise SettingError("--seconds", seconds, "use a number above 0")


def write(record: dict[str, Any], folder: Path) -> list[Path]:
    """``bench.json`` and the figures of what was measured."""
    make_folder(folder)
    written = [folder / "bench.json"]
    write_json(written[0], record)
    figures = {}
    if "where" in record:
        figures["where.png"] = where.draw(record["where"])
    if "growth" in record:
        figures["growth.png"] = curves.draw(record["growth"]["rows"])
    for name, figure in figures.items():
        written.append(folder / name)
        write_atomic(written[-1], picture(figure))
    return written
