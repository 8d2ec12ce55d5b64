"""Tables about onsets, the law of small models and its forecast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docparts.formatting import as_table, read_result, source_of
from twoclocks.clocks.onset import Onset


def onset_errors() -> str:
    """Error rates of several ways to read a clock, on simulated curves."""
    result = read_result("onset_errors.json")
    rows = [
        {
            "samples": f"{row['samples']:,}",
            "method": row["way"],
            "false alarms": f"{row['false']:.1%}",
            "coverage": f"{row['held']:.1%}",
            "delay": f"{row['median_delay']:.2f}",
            "width": f"{row['median_width']:.2f}",
        }
        for row in result["runs"]
    ]
    repeats = f"{result['repeats']:,} repeats"
    return f"{as_table(rows)}\n\n{source_of('onset_errors.json', result, repeats)}"


def small_law() -> str:
    """The law of small GPTs, its prediction for a larger size, and the outcome."""
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
    return f"{as_table(rows)}\n\n{small_law_forecast(result)}\n\n{source_of('small_law.json', result)}"


def small_law_forecast(result: dict[str, Any]) -> str:
    """What was predicted for the larger size, before and during its training, and what was measured."""
    forecast, size = result["forecast"], result["settings"]["size"]
    judged = forecast["judged"]
    measured = "; ".join(
        f"{Onset.from_json(run['tau_mem'])} (first crossing {run['tau_mem']['first_crossing']:,.0f})"
        for run in result["came"]
    )
    during = [f"at step {one['at']:,.0f}: {predicted(one)}" for run in result["came"] for one in run["in_training"]]
    return "\n".join(
        [
            f"- Predicted for N = {size}: {predicted(forecast)}.",
            f"- Leaving out each size in turn, {judged['held']} of {judged['tried']} such intervals held.",
            f"- Measured: {measured}.",
            f"- Predicted during training, from the run's own rows and the pilots' loss gaps: {'; '.join(during)}.",
        ]
    )


def predicted(forecast: dict[str, Any]) -> str:
    """A forecast as its median and interval; one without an upper end as its lower end."""
    if forecast["high"] is None:
        return f"after {forecast['low']:,.0f}"
    return f"{forecast['median']:,.0f} ({forecast['low']:,.0f}–{forecast['high']:,.0f})"


PARTS: dict[str, Callable[[], str]] = {"onset errors": onset_errors, "small law": small_law}
