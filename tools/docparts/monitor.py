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


def verbatim_runs_table() -> str:
    """Time and memory of the search for runs and for extracted pieces."""
    found = read_result("verbatim_runs.json")
    settings = found["settings"]
    rows = [
        {
            "text": row["text"],
            "training tokens": f"{row['training tokens']:,}",
            "runs: preparation, once": f"{row['prepare_seconds']['cpu']:.2g} s",
            "memory": f"{row['prepare_peak_bytes'] / 1e6:.0f} MB",
            "kept": f"{row['kept_bytes'] / 1e6:.0f} MB",
            "runs: one look": f"{row['look_seconds']['cpu']:.2g} s",
            "extractability: preparation, once": f"{row['pieces_prepare_seconds']['cpu']:.1g} s",
            "extractability: one look": f"{row['pieces_look_seconds']['cpu']:.1g} s",
        }
        for row in found["rows"]
        if row["training tokens"] >= 1_000_000
    ]
    note = (
        f"CPU time on one thread. A look: {settings['samples']:,} samples of {settings['tokens per sample']} tokens, "
        f"half of which\ncontain {settings['tokens per sample'] // 2} training tokens in a row; "
        f"or {settings['samples']:,} prompted pieces. The time of the model is not in it."
    )
    return f"{note}\n\n{as_table(rows)}\n\n{source_of('verbatim_runs.json', found)}"


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


def copy_criteria_tables() -> str:
    """The data sets, and what each criterion counts of real and of altered images."""
    found = read_result("copy_criteria.json")
    sets = [
        {
            "data": row["data"],
            "pixels": "×".join(map(str, row["shape"])),
            "training images": f"{row['training']:,}",
            "held out for the threshold": f"{(row['held_out'] + 1) // 2:,}",
            "held out for the chance level": f"{row['held_out'] // 2:,}",
            "standard deviation of pixels": f"{row['pixel_std']:.2f}",
            f"chance level, calibrated, {len(row['calibrated_chances'])} splits": spread(row["calibrated_chances"]),
        }
        for row in found["rows"]
    ]
    rows = [copy_row(data["data"], row) for data in found["rows"] for row in data["criteria"] if "found" in row]
    left_out = [data["data"] for data in found["rows"] if any("refused" in row for row in data["criteria"])]
    settings = found["settings"]
    note = (
        f"Percent of images with 95% intervals, on pixels from −1 to 1. Noise has the standard deviation 0.1 or 0.2, "
        f"blur\nis Gaussian with {settings['blur']:g} pixel, brightness adds {settings['brightness']:g}, a shift "
        f"moves the image by {settings['shift']} pixels to the right; then values beyond\n−1 and 1 are cut off. "
        f"The perceptual hash needs 32×32 pixels, so it is not defined for {' and '.join(left_out)}."
    )
    return f"{as_table(sets)}\n\n{note}\n\n{as_table(rows)}\n\n{source_of('copy_criteria.json', found)}"


def copy_row(data: str, row: dict[str, Any]) -> dict[str, str]:
    threshold = "" if row["threshold"] is None else f"{row['threshold']:.2f}"
    cells = {"data": data, "criterion": row["criterion"], "threshold": threshold}
    cells["counted by chance"] = percent_interval(row["chance"])
    return cells | {f"found: {name}": percent_interval(share) for name, share in row["found"].items() if name != "none"}


def percent_interval(share: dict[str, Any]) -> str:
    low, high = share["interval"]
    return f"{100 * share['rate']:.1f} ({100 * low:.1f}–{100 * high:.1f})"


def spread(rates: list[float]) -> str:
    """Mean and range of some rates."""
    return f"{100 * sum(rates) / len(rates):.1f}% ({100 * min(rates):.1f}–{100 * max(rates):.1f})"


PARTS = {
    "monitor cost": monitor_cost_table,
    "verbatim runs": verbatim_runs_table,
    "monitor calibration": monitor_calibration_table,
    "copy criteria": copy_criteria_tables,
}
