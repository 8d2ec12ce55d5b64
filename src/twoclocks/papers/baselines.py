"""What models of local statistics score on the rules of a reproduction: the comparison of every claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from twoclocks.core.config import to_mapping
from twoclocks.data.sets import training_set
from twoclocks.evaluation.controls import controls_of
from twoclocks.papers.records import Record, Records

SAMPLES = 2048


def baseline_rows(records: Records) -> list[dict[str, str]]:
    """One row per rule, at its largest N: how many samples of n-grams and of a tree of pairs are valid, or copies."""
    return [row for record in largest_of_each_rule(records) for row in rows_of(record)]


def largest_of_each_rule(records: Records) -> list[Record]:
    """Of the runs of each rule, one with the most training samples."""
    largest: dict[str, Record] = {}
    for one in records:
        rule = str(to_mapping(one.run.settings)["rule"])
        if rule not in largest or one.n > largest[rule].n:
            largest[rule] = one
    return [largest[rule] for rule in sorted(largest)]


def rows_of(record: Record) -> Iterator[dict[str, str]]:
    settings = record.run.settings
    rule, data = to_mapping(settings)["rule"], settings.data
    words = ", ".join(
        [rule["name"], *(f"{key} {value}" for key, value in rule.items() if key != "name" and value is not None)]
    )

    def computed() -> list[dict[str, Any]]:
        train = training_set(settings.rule, data.n, data.seed, data.part)
        return [asdict(one) for one in controls_of(settings.rule, train, SAMPLES)]

    for one in computed():
        yield {
            "rule": words,
            "N": f"{data.n:,}",
            "baseline": one["name"],
            "valid": f"{one['validity']:.1%} ({one['validity_ci'][0]:.1%} to {one['validity_ci'][1]:.1%})",
            "copies": f"{one['copies']:.1%} (chance {settings.rule.copy_chance(data.n):.2%})",
        }
