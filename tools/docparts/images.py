"""Tables of image quality: each number for real, copied and spoilt digits, and the feature spaces beside each other."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

from docparts.formatting import as_table, read_result, source_of

from twoclocks.evaluation.quality import AutoencoderSpace
from twoclocks.evaluation.quality.metrics import MEANING

RESULT = "image_quality.json"
SHOWN = {
    "real (floor)": ("floor", 0.0),
    "copies": ("copies of training images", 0),
    "one image": ("one image repeated", 0),
    "noise 0.4": ("noise", 0.4),
    "blur 0.7": ("blur", 0.7),
    "5 of 10 classes": ("missing classes", 5),
}
LADDERS = ("blur", "noise", "missing classes")
Rows = list[dict[str, Any]]


def chosen(rows: Rows, **wanted: Any) -> Rows:
    """Rows with these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def default_space() -> str:
    """The name of the default space in the study."""
    return f"autoencoder, noise {AutoencoderSpace().noise:g}"


def image_quality_table() -> str:
    """Every number for generators with known faults, on digits, in the default space."""
    found = read_result(RESULT)
    rows = chosen(found["rows"], data="digits", space=default_space())
    table = []
    for name, (about, direction) in MEANING.items():
        row = {"column": f"`{name}`", "what it is": f"{about}; {direction}"}
        for title, (kind, level) in SHOWN.items():
            values = [one[name] for one in chosen(rows, kind=kind, level=level)]
            spread = f" ± {stdev(values):.2f}" if kind == "floor" else ""
            row[title] = f"{mean(values):.2f}{spread}"
        table.append(row)
    sizes = found["settings"]["sets"]["digits"]
    note = (
        f"scikit-learn's digits, mean over {found['settings']['seeds']} random splits (± standard deviation) into "
        f"{sizes['reserved']} reserved,\n{sizes['train']} training and 2 · {sizes['half']} held-out images; "
        f"{sizes['half']} samples. Blur: standard deviation in pixels. Noise: where pixels are −1 to 1."
    )
    return f"{note}\n\n{as_table(table)}\n\n{source_of(RESULT, found)}"


def feature_space_table() -> str:
    """How far the Fréchet distance of slightly spoilt images rises in each space, and whether its order is right."""
    found = read_result(RESULT)
    table = []
    for data, sizes in found["settings"]["sets"].items():
        for space in dict.fromkeys(row["space"] for row in found["rows"]):
            rows = chosen(found["rows"], data=data, space=space)
            floors = chosen(rows, kind="floor")
            row = {"images": data, "space": space, "d": str(floors[0]["dimensions"])}
            row["real images"] = f"{mean(one['frechet'] for one in chosen(rows, kind='other real images')):.2f}"
            ordered = 0
            for kind in LADDERS:
                ladders = [ladder(chosen(rows, seed=one["seed"]), kind) for one in floors]
                ordered += sum(values == sorted(values) for values in ladders)
                differences = [values[1] - values[0] for values in ladders]
                row[f"{kind} {first_level(rows, kind):g}"] = (
                    f"×{mean(values[1] / values[0] for values in ladders):.2f} "
                    f"({mean(differences) / stdev(differences):.1f})"
                )
            row["right order"] = f"{ordered} of {len(LADDERS) * len(floors)}"
            row["seconds"] = f"{mean(one['seconds'] for one in floors):.1f} for {sizes['reserved']:,}"
            table.append(row)
    note = (
        "Fréchet distance of real images that nothing has seen, and by which factor it rises at the weakest step of\n"
        "blur, noise and missing classes. In brackets: mean difference, divided by its standard deviation over splits.\n"
        "Right order: splits in which every further step raises it. Seconds: training on one core, for so many images."
    )
    return f"{note}\n\n{as_table(table)}\n\n{source_of(RESULT, found)}"


def first_level(rows: Rows, kind: str) -> float:
    """The weakest step of a kind."""
    return min(float(row["level"]) for row in chosen(rows, kind=kind))


def ladder(rows: Rows, kind: str) -> list[float]:
    """Fréchet distances of one split: real images, then each step of a kind."""
    steps = sorted(chosen(rows, kind=kind), key=lambda row: float(row["level"]))
    return [float(row["frechet"]) for row in [*chosen(rows, kind="other real images"), *steps]]


PARTS = {"image quality": image_quality_table, "feature spaces": feature_space_table}
