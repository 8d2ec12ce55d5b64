"""Tables of interventions, of the error rates of paired experiments, and of what was measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from docparts.formatting import ROOT, as_table, read_result, source_of
from docparts.registries import first_sentence
from twoclocks.core.config import describe
from twoclocks.runs.columns import Weights
from twoclocks.runs.rows import read_rows
from twoclocks.widen import INTERVENTIONS


def interventions_table() -> str:
    """Every intervention with its settings."""
    rows = [
        {
            "intervention": f"`{name}`",
            "what it changes": first_sentence(cls),
            "settings (default)": ", ".join(f"`{key}` ({value}): {help}" for key, _, value, help in describe(cls)),
        }
        for name, cls in INTERVENTIONS.items()
    ]
    return as_table(rows)


def errors_table() -> str:
    """Error rates on simulated experiments."""
    found = read_result("widen_errors.json")
    rows = [
        {
            "simulated experiment": row["name"],
            "seeds": str(row["seeds"]),
            "interventions": str(row["interventions"]),
            "family-wise error": f"{row['family_wise_error']:.1%}",
            "95% intervals that hold the truth": f"{row['coverage']:.1%}",
            "factor 2 found": "" if row["power"] is None else f"{row['power']:.0%}",
        }
        for row in found["designs"]
    ]
    repeats = found["designs"][0]["repeats"]
    note = f"{repeats:,} experiments each; runs of one seed scatter by 15% unless said otherwise."
    return f"{as_table(rows)}\n\n{note} {source_of('widen_errors.json', found)}"


def effects_table(file: str) -> str:
    """What was measured in one experiment."""
    found = read_result(file)
    rows = []
    for arm in found["arms"][1:]:
        cells = {name: effect_words(arm["effects"].get(key)) for key, name in OUTCOMES.items()}
        runs = arm["runs"]
        closed = f"{len(runs) - arm['windows_not_open']} of {len(runs)}"
        samples = arm["effects"].get("window", {}).get("by_unit", {}).get("samples")
        seen = "" if samples is None or samples[0] is None else f"×{samples[0]:.2f}"
        row = {"intervention": f"`{arm['arm']}`", **cells, "window in samples seen": seen, "windows open": closed}
        rows.append(row)
    seeds = len(found["arms"][0]["runs"])
    note = f"Ratios to the base, {seeds} seeds, 95% intervals; **bold** if found among {found['questions']} questions."
    refused = ", ".join(f"`{name}`" for name in found["does_not_apply"])
    refused = f" Does not apply: {refused}." if refused else ""
    return f"{note}{refused}\n\n{as_table(rows)}\n\n{source_of(file, found)}"


BEGUN = "p2-digits-"  # the experiment that is not complete


def rows_table() -> str:
    """The runs of experiments that are not complete yet: both clocks, run by run."""
    stored = [one for one in read_rows(ROOT / "results" / "widen") if one.settings.name.startswith(BEGUN)]
    runs = sorted(stored, key=lambda one: (one.settings.name, one.settings.training.seed))
    rows = []
    for run in runs:
        weights: Weights = "averaged" if run.has_averages else "raw"
        clocks = run.clocks(changes=False, weights=weights)
        name, seed = run.settings.name, run.settings.training.seed
        rows.append({"run": f"`{name}`", "seed": str(seed), "τ_rule": str(clocks.rule), "τ_mem": str(clocks.memory)})
    commits = ", ".join(sorted({run.manifest["commit"][:9] for run in runs}))
    return f"{as_table(rows)}\n\nCommit {commits}, {runs[0].manifest['machine']['name']}; rows in results/widen."


OUTCOMES = {"memory": "τ_mem", "learned": "τ_rule", "window": "window"}


def effect_words(effect: dict[str, object] | None) -> str:
    """A ratio with its interval; bold where an effect was found."""
    if effect is None:
        return "not estimated"
    low, high = effect["interval"]  # type: ignore[misc]
    ratio = effect["ratio"]
    words = f"above ×{low:.2f}" if high is None else f"×{ratio:.2f} ({low:.2f} to {high:.2f})"
    return f"**{words}**" if effect["found"] else words


PARTS: dict[str, Callable[[], str]] = {
    "interventions": interventions_table,
    "widen errors": errors_table,
    "widen demo": partial(effects_table, "widen_demo_gpt.json"),
    "widen gpt-mini": partial(effects_table, "widen_gpt_mini.json"),
    "widen rows": rows_table,
}
