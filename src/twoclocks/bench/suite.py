"""Everything that ``twoclocks bench`` measures, as one record with its origin, and as figures."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from twoclocks.bench import curves, growth, steps, where
from twoclocks.bench.workloads import WORKLOADS, Row, Workload
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
    labels: Sequence[str] | None = None,
    save: Callable[[dict[str, Any]], None] = lambda record: None,
) -> dict[str, Any]:
    """The record of all parts on one device; ``seconds`` are spent on each training step that is timed.

    ``compiled``: also measure the textbook loop under ``torch.compile``; None: on a GPU. ``labels``: of the workloads;
    None: all, and for samples and for where the time goes the first two. ``save`` gets the record so far whenever it
    has grown.
    """
    workloads = check(device, parts, seconds, labels)
    few = workloads[:2] if labels is None else workloads
    threads = torch.get_num_threads()
    choice = "" if compiled is None else f" --{'' if compiled else 'no-'}compiled"
    only = "" if labels is None else f" --work {shlex.join(labels)}"
    compiles = device != "cpu" if compiled is None else compiled
    record: dict[str, Any] = {
        "command": f"twoclocks bench --device {device} --parts {' '.join(parts)} --seconds {seconds:g}{choice}{only}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine(device),
        "ceiling": steps.ceiling(device),
    }
    rows: dict[str, tuple[list[Workload], Callable[[Workload], list[Row]]]] = {
        "steps": (workloads, lambda one: [steps.step_row(one, device, seconds, compiles)]),
        "evaluations": (few, lambda one: [steps.evaluation_row(one, device)]),
        "where": (few, lambda one: where.where_rows(one, device, seconds / 3)),
    }
    try:
        for part in parts:
            torch.set_num_threads(threads)
            if part == "growth":
                report(part)
                found = growth.measure(device)
                record[part] = {"rows": found, "exponents": growth.exponents(found)}
                save(record)
            else:
                record[part] = []
                for workload in named(part, rows[part][0], report):
                    record[part] += rows[part][1](workload)
                    save(record)
    finally:
        torch.set_num_threads(threads)
    return record


def named(part: str, workloads: list[Workload], report: Callable[[str], None]) -> Iterator[Workload]:
    """The workloads, each reported when it is begun."""
    for workload in workloads:
        report(f"{part}: {workload.label}")
        yield workload


def check(device: str, parts: Sequence[str], seconds: float, labels: Sequence[str] | None) -> list[Workload]:
    """The workloads that were asked for."""
    if device not in (known := ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])):
        raise UnavailableError("--device", device, f"available: {', '.join(known)}")
    for part in parts:
        if part not in PARTS:
            raise SettingError("--parts", part, f"use some of {', '.join(PARTS)}")
    if not 0 < seconds < math.inf:
        raise SettingError("--seconds", seconds, "use a number above 0")
    by_label = {workload.label: workload for workload in WORKLOADS[device]}
    for label in labels or ():
        if label not in by_label:
            raise SettingError("--work", label, f"use some of {'; '.join(by_label)}")
    return [by_label[label] for label in dict.fromkeys(labels)] if labels is not None else WORKLOADS[device]


def write(record: dict[str, Any], folder: Path, figures: bool = True) -> list[Path]:
    """``bench.json``, and the figures of what was measured."""
    make_folder(folder)
    written = [folder / "bench.json"]
    write_json(written[0], record)
    drawn = {}
    if figures and "where" in record:
        drawn["where.png"] = where.draw(record["where"])
    if figures and "growth" in record:
        drawn["growth.png"] = curves.draw(record["growth"]["rows"])
    for name, figure in drawn.items():
        written.append(folder / name)
        write_atomic(written[-1], picture(figure))
    return written
