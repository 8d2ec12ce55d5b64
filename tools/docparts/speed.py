"""Tables of speed: steps, evaluations, rules, sweeps, dissections, and how cost grows."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import partial

from docparts.formatting import as_table, interval, read_result, source_of
from twoclocks.bench.growth import headline
from twoclocks.bench.tables import Block, tables


def rules_speed() -> str:
    """Rows per second and a million rows, measured by benchmarks/rules.py."""
    result = read_result("rules_speed.json")
    rows = []
    for run in result["runs"]:
        rule = dict(run["rule"])
        size = ", ".join(str(value) for key, value in rule.items() if key not in ("name", "rule_seed"))
        checked, made = run["checked_per_second"], run.get("training_set")
        words = "" if made is None else f"{made['seconds']:.1f} s, {made['peak_bytes_per_row']:,} bytes per row"
        if made is not None and made["rows"] < 1_000_000:
            words = f"{made['rows']:,} in {words}"
        rows.append(
            {
                "rule": f"{rule['name']}({size})",
                "sampled": f"{run['sampled_per_second']:,}",
                "checked, CPU": f"{checked['cpu']:,}",
                "checked, GPU": f"{checked['cuda']:,}" if "cuda" in checked else "",
                "1,000,000 unique rows": words,
            }
        )
    return f"{as_table(rows)}\n\n{source_of('rules_speed.json', result, result['machine']['name'] + ' host')}"


def text_memory() -> str:
    """Time and peak memory of packing text, measured by benchmarks/text_memory.py."""
    result = read_result("text_memory.json")
    rows = [
        {
            "text": f"{row['megabytes']:,} MB",
            "tokens": f"`{row['tokens']}`",
            "documents": f"`{row['documents are']}`, {row['documents']:,}",
            "time": f"{row['seconds']:.1f} s",
            "peak memory": f"{row['MiB at the peak']} MiB",
        }
        for row in result["rows"]
    ]
    where = source_of("text_memory.json", result, "One CPU thread")
    return f"{as_table(rows)}\n\n{where}"


def sweep_speed() -> str:
    """The overhead of a sweep, and cells side by side on one GPU."""
    result = read_result("sweeps_speed.json")
    empty, planned = result["empty_cell"], result["planning"]
    words = (
        f"An empty cell (one step, one evaluation) takes {empty['median_seconds']:.2f} s from job to result in a "
        f"warm pool\n(median of {empty['cells']}, the longest {empty['largest_seconds']:.2f} s). "
        f"{planned['cells']:,} cells are planned in {planned['plan_seconds']:.2f} s "
        f"and listed in {planned['list_seconds']:.2f} s."
    )
    rows = [
        {"cells at a time on one GPU": str(row["at_a_time"]), "cells per hour": f"{row['cells_an_hour']:,}"}
        for row in result["side_by_side"]
    ]
    about = "DiT-mini cells of 1,500 steps and 6 evaluations of 1,024 samples, the start of the pool included:"
    where = source_of("sweeps_speed.json", result, f"{result['machine']['name']} host")
    return f"{words}\n\n{about}\n\n{as_table(rows)}\n\n{where}"


def scale() -> str:
    """How commands about many cells, and runs of many evaluations, grow."""
    result = read_result("scale.json")
    machine, empty = result["machine"], result["empty"]
    cells = [
        {"cells": f"{row['cells']:,}", **{name: cost_words(one) for name, one in row["commands"].items()}}
        for row in result["cells"]
    ]
    evaluations = [
        {"evaluations": f"{row['evaluations']:,}", **{name: cost_words(one) for name, one in row["work"].items()}}
        for row in result["evaluations"]
    ]
    largest = result["cells"][-1]
    page = largest["page_bytes"]
    words = (
        f"{empty['cells_per_second']:.0f} empty cells per second (one step, one evaluation) run on "
        f"{machine['cores']} cores, with {1000 * empty['cpu_seconds_per_cell']:.0f} ms of CPU time each.\n"
        f"The page of {largest['cells']:,} runs has {page['html'] / 1e6:.1f} MB, its picture "
        f"{page['png'] / 1e3:.0f} kB."
    )
    about = "Seconds, seconds of CPU time and largest memory of each command, with the start of Python and all imports:"
    where = source_of("scale.json", result, f"{machine['name']}, {machine['cores']} cores")
    return f"{about}\n\n{as_table(cells)}\n\n{as_table(evaluations)}\n\n{words}\n\n{where}"


def cost_words(one: dict[str, float]) -> str:
    """Such as ``12.3 s (11.9 s), 301 MB``."""
    return f"{one['seconds']:.1f} s ({one['cpu_seconds']:.1f} s), {one['megabytes']:,.0f} MB"


def bench_tables(name: str) -> str:
    """The tables that ``twoclocks bench`` prints, of a stored record."""
    result = read_result(name)
    shown = {key: value for key, value in result.items() if key != "growth"}
    parts = [as_markdown(block) for block in tables(shown)]
    ceiling, machine = result["ceiling"], result["machine"]
    place = f"{machine['name']}, {machine['threads']} CPU threads"
    where = (
        f"{source_of(name, result, place)}\n"
        f"Ceiling: {ceiling['operations_per_second'] / 1e12:,.2f} TFLOP/s in the product {ceiling['product']}, "
        f"{ceiling['bytes_per_second'] / 1e12:,.2f} TB/s.\n"
        "Products alone: the matrix products of the step's linear layers, one after another."
    )
    return "\n\n".join([*parts, where])


def as_markdown(block: Block) -> str:
    """A titled table with its sentences, in lines as wide as a page."""
    sentences = "\n".join(textwrap.fill(sentence, 115) for sentence in block.sentences)
    return f"{block.title[0].upper()}{block.title[1:]}:\n\n{as_table(block.rows)}\n\n{sentences}".rstrip()


def same_clocks() -> str:
    """Clocks of the fast and of the plain path."""
    result, rows = read_result("same_clocks.json"), []
    for case in result["cases"]:
        for clock, label in (("tau_rule", "τ_rule"), ("tau_mem", "τ_mem")):
            seen = {path: interval(case[path][clock]) for path in ("fast", "plain")}
            rows.append({"run": case["case"], "clock": label, **seen, "apart": str(case["evaluations_apart"][clock])})
    return f"{as_table(rows)}\n\n{source_of('same_clocks.json', result, result['machine']['name'])}"


def paper_scale() -> str:
    """P1's baseline run at full length."""
    result = read_result("paper_scale.json")
    training = result["settings"]["training"]
    minutes, n = result["seconds"] / 60, result["settings"]["data"]["n"]
    return (
        f"P1's baseline (`{result['preset']}`, N = {n:,}): {training['steps']:,} steps of batch {training['batch']} "
        f"and {result['evaluations']} evaluations\ntake {minutes:.1f} minutes, "
        f"{result['evaluation_seconds']:.0f} s of them evaluations. "
        f"τ_rule {interval(result['tau_rule'])}, τ_mem {interval(result['tau_mem'])}.\n"
        f"{source_of('paper_scale.json', result, result['machine']['name'])}"
    )


def growth() -> str:
    """What a million training rows and 100,000 samples cost, and how cost grows."""
    records = [read_result(name) for name in ("speed_h200.json", "speed_cpu.json")]
    found = [
        {"device": row["device"], "quantity": row["quantity"], "seconds": f"{row['seconds']:.3f}"}
        for record in records
        for row in headline(record["growth"]["rows"])
    ]
    powers = [
        {
            "device": row["device"],
            "quantity": row["quantity"],
            "against": {"n": "N", "length": "D", "samples": "samples"}[row["against"]],
            "exponent, measured": f"{row['measured']:.2f}",
            "in theory": f"{row['theory']:.2f} ({row['law']})",
        }
        for record in records
        for row in record["growth"]["exponents"]
    ]
    about = "A million training rows of 36 bits and 100,000 samples:"
    return f"{about}\n\n{as_table(found)}\n\nExponent of growth at the large end of each curve:\n\n{as_table(powers)}"


def dissection_time() -> str:
    """How long all views of a run take."""
    rows = []
    for name in ("dissection_h200.json", "dissection_gpt_h200.json", "dissection_cpu.json"):
        result = read_result(name)
        model, seconds = result["settings"]["model"], result["seconds"]
        size = model["size"] if model["width"] is None else f"{model['width']}×{model['depth']}"
        slowest = list(seconds["views"].items())[:2]
        rows.append(
            {
                "run": f"{model['name'].upper().replace('DIT', 'DiT')} {size}, {result['checkpoints']} checkpoints",
                "where": result["machine"]["name"],
                "measuring": f"{seconds['measuring']:.0f} s",
                "drawing": f"{seconds['drawing']:.0f} s",
                "together": f"{seconds['whole']:.0f} s",
                "longest": ", ".join(f"{view} {value:.0f} s" for view, value in slowest),
                "result": f"[{name}](../results/{name})",
            }
        )
    return as_table(rows)


PARTS: dict[str, Callable[[], str]] = {
    "dissection time": dissection_time,
    "growth": growth,
    "paper scale": paper_scale,
    "rules speed": rules_speed,
    "same clocks": same_clocks,
    "scale": scale,
    "speed compiled": partial(bench_tables, "speed_h200_compiled.json"),
    "speed cpu": partial(bench_tables, "speed_cpu.json"),
    "speed gpu": partial(bench_tables, "speed_h200.json"),
    "sweep speed": sweep_speed,
    "text memory": text_memory,
}
