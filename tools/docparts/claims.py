"""The papers' claims with their verdicts, and the clocks of the demo."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from docparts.formatting import ROOT, as_table, interval, read_result, source_of
from twoclocks.papers import early_stopping, two_clocks
from twoclocks.papers.baselines import baseline_rows
from twoclocks.papers.figure import FIGURES
from twoclocks.papers.grids import grids
from twoclocks.papers.ledger import ClaimRow, claim_rows, claims_table, criteria_table, verdict_counts
from twoclocks.papers.records import Records
from twoclocks.papers.reproduction import by_identity, is_covered
from twoclocks.papers.scales import GPU, SCALES
from twoclocks.runs.rows import read_rows

assert two_clocks.__doc__ and early_stopping.__doc__  # importing them registers runs, claims and figures


@cache
def committed() -> tuple[Records, list[ClaimRow]]:
    """The committed runs, and the claims of both papers judged on them."""
    records = Records.of(read_rows(ROOT / "results" / "campaign"))
    return records, claim_rows(records)


def of_paper(letter: str) -> list[ClaimRow]:
    """The claims of the first paper (A) or of the second (B)."""
    return [row for row in committed()[1] if row.claim.id.startswith(letter)]


def criteria_of(letter: str) -> str:
    """The criterion of each claim of a paper, and what was changed in it."""
    return as_table(criteria_table(of_paper(letter)))


def baselines() -> str:
    """What models of local statistics score on the rules of the committed runs."""
    return as_table(baseline_rows(committed()[0]))


def scales() -> str:
    """The scales of a reproduction."""
    return as_table([{"scale": scale.name, "runs": scale.about} for scale in SCALES.values()])


def campaign() -> str:
    """How much of every grid of the campaign is there."""
    known = by_identity(committed()[0])
    rows = []
    for grid in grids():
        cells = grid.cells(GPU)
        rows.append(
            {
                **{"line": str(grid.line), "runs": grid.name, "what they ask": grid.about, "planned": str(len(cells))},
                "there": str(sum(is_covered(cell, known) for cell in cells)),
            }
        )
    return as_table(rows)


def table_4() -> str:
    """P1's Table 4 beside ours; of networks without a law of ours, the pooled line alone."""
    info = FIGURES.get("table4")().data(committed()[0])
    shown = [row for row in info.rows if row.ours.law is not None or row.group is None]
    heads = ("G", "a, paper", "α, paper", "R², paper", "runs, paper", "a", "α", "95% of α", "R²", "runs")
    return as_table([{"network": row.preset, **dict(zip(heads, row.cells[1:], strict=True))} for row in shown])


def sampler() -> str:
    """Invalid samples of an exact network, by preset and by number of levels."""
    result = read_result("sampler.json")
    presets = [{"preset": name, "invalid by the sampler": spread(one)} for name, one in result["presets"].items()]
    levels: dict[int, dict[str, str]] = {}
    for one in result["levels"]:
        levels.setdefault(one["levels"], {"levels": f"{one['levels']:,}"})[one["schedule"]] = spread(one)
    where = source_of("sampler.json", result, "CPU")
    return f"{as_table(presets)}\n\n{as_table(list(levels.values()))}\n\n{result['samples']:,} strings each. {where}"


def spread(one: dict[str, Any]) -> str:
    """A proportion with its interval, such as ``5.4% (4.5% to 6.5%)``."""
    low, high = one["interval"]
    return f"{one['invalid']:.1%} ({low:.1%} to {high:.1%})"


def verdicts() -> str:
    """How many claims have which verdict."""
    return " ".join(f"P{number}: {verdict_counts(of_paper(letter))}." for number, letter in ((1, "A"), (2, "B")))


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
    "baselines": baselines,
    "campaign": campaign,
    "claims": lambda: as_table(claims_table(of_paper("A"))),
    "claims of P2": lambda: as_table(claims_table(of_paper("B"))),
    "criteria": lambda: criteria_of("A"),
    "criteria of P2": lambda: criteria_of("B"),
    "demo seeds": demo_seeds,
    "demo time": demo_time,
    "sampler": sampler,
    "scales": scales,
    "table 4": table_4,
    "verdicts": verdicts,
}
