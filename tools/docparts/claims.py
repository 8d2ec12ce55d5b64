"""The papers' claims with their verdicts, and the clocks of the demo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from docparts.formatting import ROOT, as_table, interval, read_result

# Words of stored results, which are never edited: what today's sentences say in their place.
OLD_WORDS = {"surely part between": "part with 95% confidence between"}


def claim_results() -> dict[str, dict[str, Any]]:
    """Every stored result that judges a claim, by file name."""
    results = {path.name: read_result(path.name) for path in sorted((ROOT / "results").glob("*.json"))}
    return {name: result for name, result in results.items() if "claim" in result}


def claims_table() -> str:
    """One row per measured claim."""
    rows = [
        {
            "claim": result["claim"],
            "the paper says": result["paper"],
            "measured": in_todays_words(result["measured"]),
            "verdict": result["verdict"],
            "where": f"{result['machine']['name']}, [{name}](../results/{name})",
        }
        for name, result in claim_results().items()
    ]
    return as_table(rows)


def in_todays_words(text: str) -> str:
    """A stored sentence with the words that the same sentence would have now."""
    for old, new in OLD_WORDS.items():
        text = text.replace(old, new)
    return text


def verdict_counts() -> str:
    """How many claims have which verdict, in one line."""
    counts = Counter(result["verdict"] for result in claim_results().values())
    ordered = sorted(counts, key=lambda verdict: (verdict != "reproduced", -counts[verdict]))
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ordered)
    return f"{counts.total()} results so far: {words} (counted from `results/*.json`)."


def demo_seeds() -> str:
    """The demo's clocks for every seed that was tried."""
    rows = [
        {
            "seed": str(run["seed"]),
            "model": run["model"],
            "τ_rule": interval(run["tau_rule"]),
            "τ_mem": interval(run["tau_mem"]),
            "window": run["verdict"],
        }
        for run in read_result("demo_seeds.json")["runs"]
    ]
    return as_table(rows)


def demo_time() -> str:
    """How long the demo trains, from one run on an idle machine."""
    result = read_result("demo_time.json")
    words = ", ".join(f"{run['model']} {run['seconds']:.0f} s" for run in result["runs"])
    threads = result["machine"]["threads"]
    return f"Training time, evaluations included, on {threads} CPU threads: {words} (`results/demo_time.json`)."


PARTS: dict[str, Callable[[], str]] = {
    "claims": claims_table,
    "demo seeds": demo_seeds,
    "demo time": demo_time,
    "verdicts": verdict_counts,
}
