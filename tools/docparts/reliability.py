"""Tables of the crash campaigns and of runs that were killed and continued."""

from __future__ import annotations

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


PARTS: dict[str, Callable[[], str]] = {"reliability": crash_campaigns, "resume gpu": resume_gpu}
