"""Tables of what the monitor costs, and of how often and how late it stops."""

from __future__ import annotations

from typing import Any

from docparts.formatting import as_table, read_result, source_of


def monitor_cost_table() -> str:
    """Time of a look beside the sampling that it needs."""
    found = read_result("monitor_cost.json")
    rows = [
        {
            "data": row["data"],
            "criterion": row["criterion"],
            "training rows": f"{row['training rows']:,}",
            "samples per look": f"{row['samples']:,}",
            "sampled with": f"{row['network']}, {row['evaluations per sample']} evaluations per sample",
            "one look": percent(row["look / sampling"]),
            "construction, once": percent(row["construction / sampling"]),
        }
        for row in found["rows"]
    ]
    note = (
        "Time, as a part of the time that sampling takes for one look, on two CPU cores. Sampling: the measured\n"
        "time of one evaluation of the network, times their number."
    )
    return f"{note}\n\n{as_table(rows)}\n\n{source_of('monitor_cost.json', found)}"


def percent(part: float) -> str:
    return f"{100 * part:.2g}%"


def monitor_calibration_table() -> str:
    """False stops and delays of each policy, by simulation."""
    found = read_result("monitor_calibration.json")
    by: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for row in found["rows"]:
        by.setdefault(row["condition"], {})[row["policy"], row["story"]] = row
    rows = []
    for condition, cells in by.items():
        still, rising = cells["memory", "at the threshold"], cells["memory", "rising"]
        careful, early = cells["caution", "rising"], cells["caution", "a tenth of it"]
        rows.append(
            {
                "what is known": condition,
                "`memory`: false stops": f"{still['stopped']} of {still['runs']}",
                "its delay in looks": f"{rising['delay_median']:g}",
                "`caution`: too late": f"{careful['late']} of {careful['runs']}",
                "its delay in looks ": f"{careful['delay_median']:g}",
                "stops at a tenth of the threshold": f"{early['stopped']} of {early['runs']}",
            }
        )
    settings = found["settings"]
    note = (
        f"Simulated runs of {settings['looks']} looks of {settings['samples']} samples, threshold "
        f"{settings['threshold']:g}, with {settings['sustain']} looks in a row for `memory`.\n"
        "A false stop: the true copy rate is not above the threshold. Too late: the rate is above the threshold at\n"
        "a look from which training goes on. A delay below 0 is a stop before it."
    )
    return f"{note}\n\n{as_table(rows)}\n\n{source_of('monitor_calibration.json', found)}"


PARTS = {"monitor cost": monitor_cost_table, "monitor calibration": monitor_calibration_table}
