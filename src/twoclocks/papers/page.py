"""The page of a reproduction: all claims and all figures in one HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twoclocks.core.pages import page_environment
from twoclocks.core.theme import css_variables, picture
from twoclocks.papers.baselines import SAMPLES, baseline_rows
from twoclocks.papers.ledger import ClaimRow, Drawn, claims_table, criteria_table, verdict_counts
from twoclocks.papers.records import Records
from twoclocks.papers.scales import Scale
from twoclocks.report.plot import plot
from twoclocks.store.files import make_folder, write_atomic


@dataclass(frozen=True)
class Section:
    """A figure as the page shows it."""

    name: str
    heading: str
    shows: str
    svg: str
    caption: str
    claims: tuple[str, ...]


def write_page(path: Path, scale: Scale, records: Records, rows: Sequence[ClaimRow], figures: Sequence[Drawn]) -> Path:
    """Write the page, and every figure as a PNG in the folder ``figures`` beside it."""
    sections = [section(one) for one in figures]
    pictures = {one.name: picture(one.drawing, bbox_inches="tight") for one in figures if one.drawing is not None}
    day, night = css_variables()
    page = (
        page_environment("twoclocks.report")
        .get_template("reproduction.html")
        .render(
            **{"scale": scale, "runs": len(records), "counts": verdict_counts(list(rows))},
            **{"claims": claims_table(list(rows)), "criteria": criteria_table(list(rows))},
            **{"baselines": baseline_rows(records), "baseline_samples": SAMPLES, "figures": sections},
            **{"day": day, "night": night},
        )
    )
    make_folder(path.parent / "figures")
    for name, data in pictures.items():
        write_atomic(path.parent / "figures" / f"{name}.png", data)
    write_atomic(path, page.encode())
    return path


def section(one: Drawn) -> Section:
    heading = f"{spelled(one.name)}: {one.figure.title}"
    svg = plot(one.drawing, one.name, f"{heading}. {one.caption}") if one.drawing is not None else ""
    return Section(one.name, heading, one.figure.shows, svg, one.caption, one.figure.claims)


def spelled(name: str) -> str:
    """The name of a figure as papers write it.

    >>> spelled("fig2"), spelled("table4"), spelled("p2-fig4")
    ('Figure 2', 'Table 4', 'P2, Figure 4')
    """
    return name.replace("p2-", "P2, ").replace("fig", "Figure ").replace("table", "Table ")
