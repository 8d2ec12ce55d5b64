"""A record of ``twoclocks bench`` in words: narrow tables, one line per loop, and what they mean in sentences."""

from __future__ import annotations

from typing import Any, NamedTuple

from twoclocks.bench import growth
from twoclocks.bench.factors import factors_in_words
from twoclocks.bench.steps import OURS, PLAIN, PRODUCTS, best
from twoclocks.bench.workloads import Row

Table = list[dict[str, str]]


class Block(NamedTuple):
    """A table with its title, and sentences about it."""

    title: str
    rows: Table
    sentences: tuple[str, ...] = ()


def tables(record: dict[str, Any]) -> list[Block]:
    """The tables of every part that was measured; records from before a number was measured have none of it."""
    peak = record["ceiling"]["operations_per_second"]
    found: list[Block] = []
    for row in record.get("steps", ()):
        found.append(Block(f"{row['work']}: training steps per second", loop_rows(row), step_sentences(row, peak)))
        if "factors" in row:
            found.append(
                Block(
                    f"{row['work']}: which factor comes from what",
                    factor_table(row["factors"]),
                    (factors_in_words(row["factors"]),),
                )
            )
    if "evaluations" in record:
        rows = [line for row in record["evaluations"] for line in evaluation_lines(row)]
        found.append(Block("seconds per evaluation", rows))
    if "where" in record:
        found.append(Block("milliseconds per step", where_lines(record["where"])))
    if "growth" in record:
        found.append(Block("copies and neighbours", growth_lines(record["growth"]["rows"])))
    return found


def loop_rows(row: Row) -> Table:
    """One line per loop: its speed, ours relative to it, and how long its first step took."""
    rates, compiled = row["steps_per_second"], row.get("compiled", {})
    first = {name: note["seconds_to_first_step"] for name, note in compiled.items() if "failed" not in note}
    first[OURS] = row["seconds_to_first_step"]
    failed = [name for name in compiled if name not in rates]
    names = [*(name for name in rates if name != PRODUCTS), *failed, PRODUCTS]
    return [
        {
            "loop": name,
            "per second": f"{rates[name]:,.1f}" if name in rates else "failed",
            "ours is": f"{rates[OURS] / rates[name]:.2f}× as fast" if name in rates and name != OURS else "",
            "first step": f"{first[name]:.1f} s" if name in first else "",
        }
        for name in names
    ]


def step_sentences(row: Row, peak: float) -> tuple[str, ...]:
    """Against which loops ours is how fast; how fast a loop could be at most; what could not be compiled."""
    rates = row["steps_per_second"]
    plain = best(rates, PLAIN)
    against = f"Ours is {row['over_best_plain']:.2f}× as fast as the best plain loop ({plain})"
    if "over_best_compiled" in row:
        against += f" and {row['over_best_compiled']:.2f}× as fast as the best compiled loop ({row['best_compiled']})"
    ways = row.get("products_alone", {})
    way = f" ({max(ways, key=lambda name: ways[name])})" if ways else ""
    room = (
        f"If only the matrix products took time{way}, a loop could be {rates[PRODUCTS] / rates[plain]:.2f}× as fast as "
        f"the best plain loop. Ours reaches {row['of_products']:.0%} of that, and "
        f"{row['operations_per_second'] / peak:.0%} of this machine's ceiling."
    )
    notes = row.get("compiled", {})
    failures = [f"{name}: torch.compile failed: {note['failed']}" for name, note in notes.items() if "failed" in note]
    return (f"{against}.", room, *failures)


def factor_table(rows: list[Row]) -> Table:
    """One line per stage between the textbook's loop and ours."""
    return [
        {
            "loop": row["loop"],
            "per second": f"{row['steps_per_second']:,.1f}",
            "new in it": row["change"],
            "factor": f"{row['factor']:.2f}×" if "factor" in row else "",
        }
        for row in rows
    ]


def evaluation_lines(row: Row) -> Table:
    seconds = row["seconds"]
    return [
        {
            "work": row["work"] if name == OURS else "",
            "samples": f"{row['samples']:,}" if name == OURS else "",
            "loop": name,
            "seconds": f"{value:.3f}",
            "ours is": f"{value / seconds[OURS]:.2f}× as fast" if name != OURS else "",
        }
        for name, value in seconds.items()
    ]


def where_lines(rows: list[Row]) -> Table:
    """One line per purpose, one column per loop; the sum over kernels and the whole step differ."""
    found: Table = []
    for work in dict.fromkeys(row["work"] for row in rows):
        loops = {row["loop"].partition(": ")[2]: row for row in rows if row["work"] == work}
        spent = {name: {**row["microseconds"], "whole step": row["step_microseconds"]} for name, row in loops.items()}
        for purpose in next(iter(spent.values())):
            times = {name: f"{one[purpose] / 1e3:.2f}" for name, one in spent.items()}
            found.append({"work": work, "purpose": purpose, **times})
            work = ""
    return found


def growth_lines(rows: list[growth.Row]) -> Table:
    return [
        {
            "quantity": row["quantity"],
            "N": f"{row['n']:,}",
            "D": f"{row['length']:,}",
            "samples": f"{row['samples']:,}",
            "seconds": f"{row['seconds']:.3f}",
        }
        for row in growth.headline(rows)
    ]
