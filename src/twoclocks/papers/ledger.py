"""The ledger: what became of every claim and figure, as tables and as one page, from runs or committed rows alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twoclocks.papers.claim import VERDICTS, Claim, Judgement
from twoclocks.papers.cost import expected_bytes, expected_seconds
from twoclocks.papers.figure import MissingRunsError, PaperFigure
from twoclocks.papers.grids import views_by_cell
from twoclocks.papers.records import Records
from twoclocks.papers.reproduction import Entry, Reproduction, entries


@dataclass(frozen=True)
class ClaimRow:
    """One line of the ledger."""

    name: str
    claim: Claim
    judgement: Judgement

    def as_json(self) -> dict[str, Any]:
        found = self.judgement
        return {
            **{"claim": self.claim.id, "name": self.name, "paper": self.claim.paper},
            **{"criterion": self.claim.criterion, "revised": self.claim.revised},
            **{"verdict": found.verdict, "measured": found.measured},
            **found.seeds.as_json(),
            "values": found.values,
        }


def claim_rows(records: Records, chosen: Mapping[str, Entry] | None = None) -> list[ClaimRow]:
    """All claims, judged."""
    every = chosen if chosen is not None else entries()
    return [ClaimRow(name, one, one.judge(records)) for name, one in every.items() if isinstance(one, Claim)]


def verdict_counts(rows: list[ClaimRow]) -> str:
    """Such as ``20 claims: 3 reproduced, 2 seen once, 15 not run``."""
    counts = Counter(row.judgement.verdict for row in rows)
    return f"{len(rows)} claims: " + ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])


def claims_table(rows: list[ClaimRow]) -> list[dict[str, str]]:
    """The ledger for people."""
    return [
        {
            "claim": row.claim.id,
            "the paper says": row.claim.paper,
            "measured": row.judgement.measured,
            "seeds": row.judgement.seeds.words,
            "verdict": row.judgement.verdict,
            "figure": ", ".join(row.claim.figures),
            "command": f"twoclocks reproduce {row.name}",
        }
        for row in rows
    ]


def criteria_table(rows: list[ClaimRow]) -> list[dict[str, str]]:
    """What counts as reproduced, and what was changed in it after runs existed; each criterion once."""
    found = [(row.claim.id, row.claim.criterion, row.claim.revised) for row in rows]
    return [
        {"claim": name, "reproduced when": criterion, "changed after runs existed": revised}
        for name, criterion, revised in dict.fromkeys(found)
    ]


def listing(place: Reproduction, records: Records) -> list[dict[str, str]]:
    """What there is to reproduce: runs, minutes, disk, and how much of it is there."""
    lines, views = [], views_by_cell(place.scale)
    for name, entry in entries().items():
        cells = entry.cells(place.scale)
        missing = place.missing(cells, records)
        lines.append(
            {
                "name": name,
                "shows": entry.title,
                "scale": place.scale.name,
                "runs": f"{len(cells):,}",
                "there": f"{len(cells) - len(missing):,}",
                "minutes": minutes(sum(expected_seconds(one.settings, views.get(one.key, ())) for one in missing)),
                "disk": f"{sum(expected_bytes(cell.settings) for cell in missing) / 1e9:.1f} GB" if missing else "",
            }
        )
    return lines


def minutes(seconds: float) -> str:
    return f"{seconds / 60:,.0f}" if seconds >= 60 else "< 1" if seconds else ""


@dataclass(frozen=True)
class Drawn:
    """A figure with its caption, or why there is none."""

    name: str
    figure: PaperFigure[Any]
    drawing: Any  # a matplotlib figure, or None
    caption: str


def drawn_figures(records: Records, chosen: Mapping[str, Entry] | None = None) -> list[Drawn]:
    """All figures and tables that these runs can show."""
    found = []
    for name, one in (chosen if chosen is not None else entries()).items():
        if isinstance(one, PaperFigure):
            try:
                info = one.data(records)
            except MissingRunsError as error:
                found.append(Drawn(name, one, None, str(error)))
            else:
                found.append(Drawn(name, one, one.draw(info), one.caption(info)))
    return found
