"""The page of an experiment: forest plot, sentences, tables, in one HTML file that loads nothing."""

from __future__ import annotations

from pathlib import Path

from twoclocks.core.pages import page_environment
from twoclocks.core.theme import css_variables
from twoclocks.report.plot import plot
from twoclocks.store.files import write_atomic
from twoclocks.widen.drawing import draw_findings
from twoclocks.widen.experiment import BASE
from twoclocks.widen.findings import Findings
from twoclocks.widen.words import base_table, how_judged, ordered, quality_table, sentences, table

CAPTION = (
    "Ratio to the base, on the same seeds: points with 95% intervals, filled where an effect is found; small marks are "
    "single seeds. Arrows: the interval goes on. Without an effect the ratio is 1 (dashed line)."
)


def write_page(findings: Findings, path: Path) -> Path:
    """Write the page; returns its path."""
    day, night = css_variables()
    name = findings.base.arm.settings.name.removesuffix(f"-{BASE}")
    page = (
        page_environment("twoclocks.report")
        .get_template("widen.html")
        .render(
            **{"name": name, "lead": lead(findings), "caption": CAPTION, "judged": how_judged(findings)},
            **{"svg": plot(draw_findings(findings), "forest", f"Forest plot. {CAPTION}"), "lines": sentences(findings)},
            **{"ratios": table(findings), "quality": quality_table(findings), "base": base_table(findings)},
            **{"notes": notes(findings), "changes": change_table(findings), "day": day, "night": night},
        )
    )
    write_atomic(path, page.encode())
    return path


def lead(findings: Findings) -> str:
    """The answer in one sentence."""
    found = [one.arm.name for one in ordered(findings) if widens(findings, one.arm.name)]
    tried = len(findings.interventions)
    if not found:
        return (
            f"None of the {tried} interventions is found to widen the window on these {len(findings.base.runs)} seeds."
        )
    return f"Found to widen the window: {', '.join(found)} ({len(found)} of {tried} interventions)."


def widens(findings: Findings, name: str) -> bool:
    """Whether an intervention was found to make the window wider."""
    effect = next(one for one in findings.interventions if one.arm.name == name).effects.get("window")
    return effect is not None and effect.is_found and effect.ratio > 1


def notes(findings: Findings) -> list[str]:
    refused = [f"{name} does not apply: {why}" for name, why in findings.refused.items()]
    return [*findings.notes, *refused]


def change_table(findings: Findings) -> list[dict[str, str]]:
    return [
        {"intervention": one.arm.name, "settings": ", ".join(f"{key} {value}" for key, value in one.arm.change.items())}
        for one in ordered(findings)
    ]
