"""Tables of interventions, of the error rates of paired experiments, and of what was measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from docparts.formatting import as_table, read_result, source_of
from docparts.registries import first_sentence
from twoclocks.core.config import describe
from twoclocks.rules import RULES
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
    learned = "τ_rule" if RULES.get(found["rule"]).has_rule else "τ_gen"
    rows = []
    for arm in found["arms"][1:]:
        cells = {name or learned: effect_words(arm["effects"].get(key)) for key, name in OUTCOMES.items()}
        runs = arm["runs"]
        closed = f"{len(runs) - arm['windows_not_open']} of {len(runs)}"
        samples = arm["effects"].get("window", {}).get("by_unit", {}).get("samples")
        seen = "" if samples is None or samples[0] is None else f"×{samples[0]:.2f}"
        row = {"intervention": f"`{arm['arm']}`", **cells, "window in samples seen": seen, "windows open": closed}
        rows.append(row)
    note = f"Ratios to the base, {found['seeds']} seeds, 95% intervals; **bold** if found among {found['questions']}"
    lacking = ", ".join(f"`{name}`" for name in found["missing"])
    lacking = f" **Not complete**: seeds are missing of {lacking}." if lacking else ""
    refused = ", ".join(f"`{name}`" for name in found["does_not_apply"])
    refused = f" Does not apply: {refused}." if refused else ""
    return f"{note} questions.{lacking}{refused}\n\n{as_table(rows)}\n\n{source_of(file, found)}"


OUTCOMES = {"memory": "τ_mem", "learned": "", "window": "window"}  # the second clock depends on the data


def effect_words(effect: dict[str, object] | None) -> str:
    """A ratio with its interval; bold where an effect was found."""
    if effect is None:
        return "not estimated"
    low, high = effect["interval"]  # type: ignore[misc]
    ratio = effect["ratio"]
    words = f"above ×{low:.2f}" if high is None else f"×{ratio:.2f} ({low:.2f} to {high:.2f})"
    return f"**{words}**" if effect["found"] else words


MEASURED = {  # column of the summary: result
    "demo's GPT, parity": "widen_demo_gpt.json",
    "demo's DiT, parity": "widen_demo_dit.json",
    "GPT-mini, parity": "widen_gpt_mini.json",
    "DiT-mini, parity": "widen_dit_mini.json",
    "U-Net, grammar": "widen_rhm.json",
    "U-Net, digits": "widen_digits.json",
}


def summary_table() -> str:
    """The width of the window in steps, in every experiment."""
    found = {
        name: {arm["arm"]: arm["effects"].get("window") for arm in read_result(file)["arms"][1:]}
        for name, file in MEASURED.items()
    }
    rows = []
    for arm in sorted({arm for arms in found.values() for arm in arms}):
        cells = {name: short_words(arms[arm]) if arm in arms else "" for name, arms in found.items()}
        rows.append({"intervention": f"`{arm}`", **cells})
    return as_table(rows)


def short_words(effect: dict[str, object] | None) -> str:
    """A ratio without its interval; bold where an effect was found."""
    if effect is None:
        return "not open"
    words = f"above ×{effect['interval'][0]:.2f}" if effect["ratio"] is None else f"×{effect['ratio']:.2f}"  # type: ignore[index]
    return f"**{words}**" if effect["found"] else words


PARTS: dict[str, Callable[[], str]] = {
    "interventions": interventions_table,
    "widen errors": errors_table,
    "widen summary": summary_table,
    "widen demo": partial(effects_table, "widen_demo_gpt.json"),
    "widen demo-dit": partial(effects_table, "widen_demo_dit.json"),
    "widen gpt-mini": partial(effects_table, "widen_gpt_mini.json"),
    "widen dit-mini": partial(effects_table, "widen_dit_mini.json"),
    "widen rhm": partial(effects_table, "widen_rhm.json"),
    "widen digits": partial(effects_table, "widen_digits.json"),
}
