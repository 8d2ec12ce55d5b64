"""What models of local statistics score on the rules of a reproduction: the comparison of every claim."""

from __future__ import annotations

from twoclocks.core.config import to_mapping
from twoclocks.evaluation.controls import Control, controls_of
from twoclocks.papers.records import Record, Records

SAMPLES = 2048


def baseline_rows(records: Records) -> list[dict[str, str]]:
    """One row per rule, at its largest N: how many samples of n-grams and of a tree of pairs are valid, or copies.

    An n-gram as long as a piece of the rule sees the whole piece; of the shorter ones, that with the most valid samples
    is shown.
    """
    return [row_of(record) for record in largest_of_each_rule(records)]


def largest_of_each_rule(records: Records) -> list[Record]:
    """Of the runs of each rule, one with the most training samples."""
    largest: dict[str, Record] = {}
    for one in records:
        rule = str(to_mapping(one.run.settings)["rule"])
        if rule not in largest or one.n > largest[rule].n:
            largest[rule] = one
    return [largest[rule] for rule in sorted(largest)]


def row_of(record: Record) -> dict[str, str]:
    settings = record.run.settings
    rule, data = to_mapping(settings)["rule"], settings.data
    values = [f"{key} {value}" for key, value in rule.items() if key != "name" and value is not None]
    found = controls_of(settings.rule, data.training_set(settings.rule), SAMPLES)
    shorter = [one for one in found if one.name.endswith("-gram")]
    whole = [one for one in found if "as long as" in one.name]
    tree = [one for one in found if one.name == "pairwise tree"]
    return {
        "rule": ", ".join([rule["name"], *values]),
        "N": f"{data.n:,}",
        "shorter n-gram": in_words(max(shorter, key=lambda one: one.validity, default=None)),
        "n-gram as long as a piece": in_words(next(iter(whole), None)),
        "tree of pairs": in_words(next(iter(tree), None)),
        "copies by chance": f"{settings.rule.copy_chance(data.n):.2%}",
    }


def in_words(control: Control | None) -> str:
    """Such as ``12.0% valid (10.6% to 13.4%), 0.0% copies``; empty where there is no such baseline."""
    if control is None:
        return ""
    low, high = control.validity_ci
    name = f"{control.name}: " if control.name.endswith("-gram") else ""
    return f"{name}{control.validity:.1%} valid ({low:.1%} to {high:.1%}), {control.copies:.1%} copies"
