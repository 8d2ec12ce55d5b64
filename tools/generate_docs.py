"""Fill the generated parts of README.md and docs/ from the registry, the source tree and results/.

    python tools/generate_docs.py          rewrite the parts between the markers
    python tools/generate_docs.py --check  exit 1 if they are out of date

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from doc_tables import (
    ROOT,
    as_table,
    encodings_table,
    executors_table,
    file_tree,
    metrics_table,
    rules_table,
    views_table,
)

from twoclocks.bench.growth import headline
from twoclocks.bench.suite import tables
from twoclocks.clocks.onset import Onset


def reproduced() -> str:
    """One row a claim that was measured."""
    rows = ["| claim | the paper says | measured | verdict | where |", "|---|---|---|---|---|"]
    for path in sorted((ROOT / "results").glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if "claim" in result:
            where = f"{result['machine']['name']}, [{path.name}](results/{path.name})"
            cells = (result["claim"], result["paper"], result["measured"], result["verdict"], where)
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def demo_seeds() -> str:
    """The demo's clocks for every seed that was tried."""
    path = ROOT / "results" / "demo_seeds.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    rows = ["| seed | model | τ_rule | τ_mem | window |", "|---|---|---|---|---|"]
    for run in result["runs"]:
        clocks = [f"{run[name]['lower']:,.0f}–{run[name]['upper']:,.0f}" for name in ("tau_rule", "tau_mem")]
        rows.append(f"| {run['seed']} | {run['model']} | {clocks[0]} | {clocks[1]} | {run['verdict']} |")
    return "\n".join(rows)


def demo_time() -> str:
    """How long the demo trains, from one run on a quiet machine."""
    result = json.loads((ROOT / "results" / "demo_time.json").read_text(encoding="utf-8"))
    seconds = {run["model"]: run["seconds"] for run in result["runs"]}
    words = ", ".join(f"{model} {time:.0f} s" for model, time in seconds.items())
    threads = result["machine"]["threads"]
    return f"Training time, evaluations included, on {threads} CPU threads: {words} (`results/demo_time.json`)."


def rules_speed() -> str:
    """Rows per second and a million rows, measured by benchmarks/rules.py."""
    result = json.loads((ROOT / "results" / "rules_speed.json").read_text(encoding="utf-8"))
    rows = []
    for run in result["runs"]:
        rule = dict(run["rule"])
        size = ", ".join(str(value) for key, value in rule.items() if key not in ("name", "rule_seed"))
        checked, made = run["checked_per_second"], run.get("training_set")
        words = "" if made is None else f"{made['seconds']:.1f} s, {made['peak_bytes_per_row']:,} bytes a row"
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
    where = (
        f"{result['machine']['name']} host, `{result['command']}` ([rules_speed.json](../results/rules_speed.json))."
    )
    return f"{as_table(rows)}\n\n{where}"


def reliability() -> str:
    """What the crash campaigns counted."""
    result = json.loads((ROOT / "results" / "reliability.json").read_text(encoding="utf-8"))
    rows = [
        {"campaign": row["campaign"], **{key: f"{row[key]:,}" for key in ("tried", "equal", "detected", "wrong")}}
        for row in result["runs"]
    ]
    minutes = sum(row["seconds"] for row in result["runs"]) / 60
    where = (
        f"`{result['command']}`, {minutes:.0f} minutes on two cores ([reliability.json](../results/reliability.json))."
    )
    return f"{as_table(rows)}\n\n{where}"


def resume_gpu() -> str:
    """Clocks of runs that were killed on a GPU, beside those that were not."""
    result = json.loads((ROOT / "results" / "resume_gpu.json").read_text(encoding="utf-8"))
    rows = []
    for run in result["runs"]:
        clocks = {name: f"{run[name]['lower']:,.0f}–{run[name]['upper']:,.0f}" for name in ("tau_rule", "tau_mem")}
        begun = ", ".join(f"{step:,}" for step in run.get("attempts", run.get("sittings")))
        row = {"preset": run["preset"], "killed": f"{run['kills']} times", "began at step": begun}
        losses = {f"last {name}": f"{value:.4f}" for name, value in run["last_losses"].items()}
        rows.append({**row, **clocks, **losses, "weights": f"`{run['weights'][:8]}`"})
    where = f"{result['machine']['name']}, `{result['command']}` ([resume_gpu.json](../results/resume_gpu.json))."
    return f"{as_table(rows)}\n\n{where}"


def sweep_speed() -> str:
    """The overhead of a sweep, and cells side by side on one GPU."""
    result = json.loads((ROOT / "results" / "sweeps_speed.json").read_text(encoding="utf-8"))
    empty, planned = result["empty_cell"], result["planning"]
    words = (
        f"An empty cell (one step, one evaluation) takes {empty['median_seconds']:.2f} s from order to result in a "
        f"warm pool (median of {empty['cells']}, the longest {empty['largest_seconds']:.2f} s); "
        f"{planned['cells']:,} cells are planned in {planned['plan_seconds']:.2f} s "
        f"and listed in {planned['list_seconds']:.2f} s."
    )
    rows = [
        {"cells at a time on one GPU": str(row["at_a_time"]), "cells an hour": f"{row['cells_an_hour']:,}"}
        for row in result["side_by_side"]
    ]
    where = (
        f"{result['machine']['name']} host, `{result['command']}` ([sweeps_speed.json](../results/sweeps_speed.json))."
    )
    about = "DiT-mini cells of 1,500 steps and 6 evaluations of 1,024 samples, the start of the pool included:"
    return f"{words}\n\n{about}\n\n{as_table(rows)}\n\n{where}"


def read_result(name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))
    return result


def speed(name: str) -> str:
    """The tables that ``twoclocks bench`` prints, of a stored record."""
    result = read_result(name)
    shown = {key: value for key, value in result.items() if key != "growth"}
    parts = [f"{title[0].upper()}{title[1:]}:\n\n{as_table(rows)}" for title, rows in tables(shown).items()]
    ceiling, machine = result["ceiling"], result["machine"]
    where = (
        f"{machine['name']}, {machine['threads']} CPU threads, `{result['command']}` ([{name}](../results/{name})). "
        f"Ceiling: {ceiling['operations_per_second'] / 1e12:,.2f} TFLOP/s in the product {ceiling['product']}, "
        f"{ceiling['bytes_per_second'] / 1e12:,.2f} TB/s; products alone: those of the step, one after another."
    )
    return "\n\n".join([*parts, where])


def same_clocks() -> str:
    """Clocks of the fast and of the plain path."""
    result, rows = read_result("same_clocks.json"), []
    for case in result["cases"]:
        for clock, label in (("tau_rule", "τ_rule"), ("tau_mem", "τ_mem")):
            seen = {
                path: f"{case[path][clock]['lower']:,.0f}–{case[path][clock]['upper']:,.0f}"
                for path in ("fast", "plain")
            }
            rows.append({"run": case["case"], "clock": label, **seen, "apart": str(case["evaluations_apart"][clock])})
    where = f"{result['machine']['name']}, `{result['command']}` ([same_clocks.json](../results/same_clocks.json))."
    return f"{as_table(rows)}\n\n{where}"


def onset_errors() -> str:
    """How ways to read a clock err."""
    result = read_result("onset_errors.json")
    rows = [
        {
            "samples": f"{row['samples']:,}",
            "way": row["way"],
            "false": f"{row['false']:.1%}",
            "held": f"{row['held']:.1%}",
            "delay": f"{row['median_delay']:.2f}",
            "width": f"{row['median_width']:.2f}",
        }
        for row in result["runs"]
    ]
    where = f"{result['repeats']:,} repeats, `{result['command']}` ([onset_errors.json](../results/onset_errors.json))."
    return f"{as_table(rows)}\n\n{where}"


def small_law() -> str:
    """The law of small GPTs, what it foretold of a larger size, and what came."""
    result = read_result("small_law.json")
    rows = []
    for fit in result["laws"]["tau_mem"]["fits"]:
        law = fit["law"]
        numbers = {"τ_mem of": fit["label"], "a": "", "α": "", "95%": "", "R²": "", "runs (censored)": fit["reason"]}
        if law is not None:
            low, high = law["alpha_ci"]
            numbers |= {"a": f"{law['a']:.3g}", "α": f"{law['alpha']:.2f}", "95%": f"{low:.2f} to {high:.2f}"}
            numbers |= {"R²": f"{law['r_squared']:.2f}", "runs (censored)": f"{law['points']} ({law['censored']})"}
        rows.append(numbers)
    foretold, size = result["forecast"], result["settings"]["size"]
    judged = foretold["judged"]
    came = "; ".join(
        f"{Onset.from_json(run['tau_mem'])} (first crossing {run['tau_mem']['first_crossing']:,.0f})"
        for run in result["came"]
    )
    said = f"{foretold['median']:,.0f} ({foretold['low']:,.0f}–{foretold['high']:,.0f})"
    moments = [f"at step {one['at']:,.0f} {spoken(one)}" for run in result["came"] for one in run["in_training"]]
    return (
        f"{as_table(rows)}\n\nForetold for N = {size}: {said}; leaving out each size in turn, {judged['held']} of "
        f"{judged['tried']} such intervals held. What came: {came}. Foretold while it trained, from its own rows and "
        f"the pilots' loss gaps: {'; '.join(moments)}. `{result['command']}` "
        "([small_law.json](../results/small_law.json))."
    )


def spoken(forecast: dict[str, Any]) -> str:
    if forecast["high"] is None:
        return f"after {forecast['low']:,.0f}"
    return f"{forecast['median']:,.0f} ({forecast['low']:,.0f}–{forecast['high']:,.0f})"


def paper_scale() -> str:
    """The paper's baseline, whole."""
    result = read_result("paper_scale.json")
    clocks = [f"{result[name]['lower']:,.0f}–{result[name]['upper']:,.0f}" for name in ("tau_rule", "tau_mem")]
    training = result["settings"]["training"]
    size = f"{training['steps']:,} steps of batch {training['batch']} and {result['evaluations']} evaluations"
    minutes, n = result["seconds"] / 60, result["settings"]["data"]["n"]
    return (
        f"P1's baseline (`{result['preset']}`, N = {n:,}), {size}: {minutes:.1f} minutes, "
        f"{result['evaluation_seconds']:.0f} s of them evaluations; τ_rule {clocks[0]}, τ_mem {clocks[1]}. "
        f"{result['machine']['name']}, `{result['command']}` ([paper_scale.json](../results/paper_scale.json))."
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
            "power, measured": f"{row['measured']:.2f}",
            "in theory": f"{row['theory']:.2f} ({row['law']})",
        }
        for record in records
        for row in record["growth"]["exponents"]
    ]
    about = "A million training rows of 36 bits and 100,000 samples:"
    return f"{about}\n\n{as_table(found)}\n\nPower of growth at the large end of each curve:\n\n{as_table(powers)}"


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
    "rules": rules_table,
    "metrics": metrics_table,
    "views": views_table,
    "dissection time": dissection_time,
    "encodings": encodings_table,
    "rules speed": rules_speed,
    "file tree": file_tree,
    "reproduced": reproduced,
    "demo seeds": demo_seeds,
    "demo time": demo_time,
    "executors": executors_table,
    "reliability": reliability,
    "resume gpu": resume_gpu,
    "sweep speed": sweep_speed,
    "speed gpu": partial(speed, "speed_h200.json"),
    "speed cpu": partial(speed, "speed_cpu.json"),
    "same clocks": same_clocks,
    "paper scale": paper_scale,
    "onset errors": onset_errors,
    "small law": small_law,
    "growth": growth,
}


def fill(text: str) -> str:
    for name, make in PARTS.items():
        if f"<!-- generated: {name} -->" not in text:
            continue
        pattern = re.compile(rf"(<!-- generated: {name} -->\n).*?(\n?<!-- end: {name} -->)", re.DOTALL)
        part = make()
        text = pattern.sub(lambda match, part=part: f"{match[1]}{part}\n<!-- end: {name} -->", text)  # noqa: B023
    return text


def main() -> int:
    stale = 0
    for path in pages():
        old = path.read_text(encoding="utf-8")
        new = fill(old)
        if "--check" in sys.argv:
            print(f"{path.name} is up to date" if new == old else f"{path.name} is out of date; run make docs")
            stale += new != old
        else:
            path.write_text(new, encoding="utf-8")
    return int(stale > 0)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


if __name__ == "__main__":
    raise SystemExit(main())
