"""Tables of the crash campaigns and of runs that were killed and continued."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from docparts.formatting import as_table, interval, read_result, source_of


def crash_campaigns() -> str:
    """What the crash campaigns counted."""
    result = read_result("reliability.json")
    rows = [
        {
            "campaign": row["campaign"].replace("random moment", "random time"),
            **{key: f"{row[key]:,}" for key in ("tried", "equal", "detected", "wrong")},
        }
        for row in result["runs"]
    ]
    minutes = sum(row["seconds"] for row in result["runs"]) / 60
    return f"{as_table(rows)}\n\n{source_of('reliability.json', result, f'{minutes:.0f} minutes on two cores')}"


FAMILIES = (  # faults of the soak that share a row of the table
    (r"(ENOSPC|EIO|EROFS|EDQUOT) at a disk call.*", "ENOSPC, EIO, EROFS or EDQUOT at a disk call"),
    (r"(SIGTERM|SIGINT|SIGHUP) at a random time", "SIGTERM, SIGINT or SIGHUP at a random time"),
    (r"(SIGTERM|SIGINT|SIGHUP) at a disk call", "SIGTERM, SIGINT or SIGHUP at a disk call"),
    (r"kill -9 at disk calls.*", "kill -9 at disk calls"),
    (r"(FIFO|socket|folder) in place of a file", "FIFO, socket or folder in place of a file"),
)
SUBJECTS = {"run": "runs", "sweep": "sweeps", "monitor state": "monitor states", "committed rows": "rows"}


def soak() -> str:
    """What the soak counted, by kind of fault."""
    result = read_result("soak.json")
    table: dict[str, Counter[str]] = {}
    for row in result["runs"]:
        fault = next((name for pattern, name in FAMILIES if re.fullmatch(pattern, row["fault"])), row["fault"])
        counts = {SUBJECTS[row["subject"]]: row["tried"], **{key: row[key] for key in ("equal", "detected", "wrong")}}
        table.setdefault(fault, Counter()).update(counts)
    total = sum(table.values(), Counter[str]())
    names = (*SUBJECTS.values(), "equal", "detected", "wrong")
    rows = [
        {"fault": fault, **{name: f"{counts[name]:,}" if counts[name] or name == "wrong" else "" for name in names}}
        for fault, counts in [*table.items(), ("all", total)]
    ]
    where = f"{result['minutes']:.0f} minutes, {result['processes']} at a time, {result['machine']['cores']} cores"
    return f"{as_table(rows)}\n\n{source_of('soak.json', result, where)}"


def resume_gpu() -> str:
    """Clocks of runs that were killed on a GPU, beside those that were not."""
    result = read_result("resume_gpu.json")
    rows = []
    for run in result["runs"]:
        starts = ", ".join(f"{step:,}" for step in run.get("attempts", run.get("sittings")))
        row = {"preset": run["preset"], "killed": f"{run['kills']} times", "began at step": starts}
        clocks = {label: interval(run[name]) for name, label in (("tau_rule", "τ_rule"), ("tau_mem", "τ_mem"))}
        losses = {f"last {name}": f"{value:.4f}" for name, value in run["last_losses"].items()}
        rows.append({**row, **clocks, **losses, "weights": f"`{run['weights'][:8]}`"})
    return f"{as_table(rows)}\n\n{source_of('resume_gpu.json', result, result['machine']['name'])}"


PARTS: dict[str, Callable[[], str]] = {"reliability": crash_campaigns, "soak": soak, "resume gpu": resume_gpu}
