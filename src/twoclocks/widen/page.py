"""The page of an experiment: forest plot, sentences, tables, in one HTML file that loads nothing."""

from __future__ import annotations

from pathlib import Path

from twoclocks.core.pages import page_environment
from twoclocks.core.theme import css_variables
from twoclocks.report.plot import plot
from twoclocks.store.files import write_atomic
from twoclocks.widen.drawing import draw_findings
from twoclocks.widen.experiment import BASE
from twoclocks.widen.findings import ArmResult, Findings
from twoclocks.widen.run_result import Outcome
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
    """The answer in two or three sentences. Where no window is open, a delay of copying is no gain."""
    tried, seeds = len(findings.interventions), len(findings.base.runs)
    delayed = [one for one in ordered(findings) if raises(one, "memory")]
    later = [one.arm.name for one in delayed if one.closed < len(one.runs)]
    instead = [one.arm.name for one in delayed if one.closed == len(one.runs)]
    wider = [one.arm.name for one in ordered(findings) if raises(one, "window")]
    if not delayed and not wider:
        found = f"None of {tried} interventions is found to delay copying or to widen the window, on {seeds} seeds."
    else:
        found = (
            f"Found to delay copying: {', '.join(later) or 'none'}. Found to widen the window, in steps: "
            f"{', '.join(wider) or 'none'} (of {tried} interventions, on {seeds} seeds)."
        )
    if not instead:
        return found
    return f"{found} Copying begins later with {', '.join(instead)} too, but no window is open in any of these runs."


def raises(one: ArmResult, outcome: Outcome) -> bool:
    """Whether an intervention was found to make a time longer."""
    effect = one.effects.get(outcome)
    return effect is not None and effect.is_found and effect.ratio > 1


def notes(findings: Findings) -> list[str]:
    refused = [f"{name} does not apply: {why}" for name, why in findings.refused.items()]
    return [*findings.notes, *refused]


def change_table(findings: Findings) -> list[dict[str, str]]:
    return [
        {"intervention": one.arm.name, "settings": ", ".join(f"{key} {value}" for key, value in one.arm.change.items())}
        for one in ordered(findings)
    ]
