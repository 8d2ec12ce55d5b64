"""Table of what a fine-tune of Stable Diffusion costs, computed from operations."""

from __future__ import annotations

from docparts.formatting import as_table, read_result, source_of


def fine_tune_cost_table() -> str:
    """Operations, hours and bytes of the fine-tune with the settings of P2."""
    found = read_result("stable_diffusion_cost.json")
    assumed, settings = found["assumed"], found["settings"]
    rows = []
    for row in found["rows"]:
        parts = row["operations"]
        looks = parts["losses of all looks"] + parts["generations of all looks"]
        cells = {
            "trained": row["kind"],
            "operations": f"{sum(parts.values()):.2g}",
            "of which looks": f"{100 * looks / sum(parts.values()):.0f}%",
        }
        cells |= {f"hours, {gpu}": f"{hours:.2g}" for gpu, hours in row["hours"].items()}
        cells["GPU memory without activations"] = gigabytes(row["bytes of weights, gradients and moments"])
        cells["one checkpoint"] = gigabytes(row["bytes of a checkpoint"])
        rows.append(cells)
    peaks = ", ".join(
        f"{gpu} {peak / 1e12:.0f}·10¹²" for gpu, peak in assumed["peak operations per second"].items()
    ).replace("NVIDIA ", "")
    note = (
        f"Computed from operations, not measured: {settings['steps']:,} steps of {settings['batch']} images of "
        f"{settings['size']}×{settings['size']} pixels,\nwith {settings['steps'] // settings['every']} looks. Hours "
        f"assume {100 * assumed['utilisation']:.0f}% of the peak in bfloat16 (operations per second:\n{peaks}). "
        "Memory is that of\nthe weights of all networks, and of gradients and Adam's moments, in float32."
    )
    return f"{note}\n\n{as_table(rows)}\n\n{source_of('stable_diffusion_cost.json', found)}"


def gigabytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB"


PARTS = {"fine-tune cost": fine_tune_cost_table}
