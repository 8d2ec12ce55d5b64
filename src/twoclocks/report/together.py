"""Chapters about several runs together: their law, their phases, their batches, their twins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from twoclocks.analysis.batches import BatchLaw, found_batch_laws
from twoclocks.analysis.phases import PhaseDiagram, phase_diagram
from twoclocks.core.errors import UserError
from twoclocks.report.batches import BatchInfo, batch_info, draw_batches
from twoclocks.report.collapses import MOST_COLLAPSES, CollapseInfo, collapse_data, draw_collapses
from twoclocks.report.laws import MOST_POINTS, LawInfo, draw_laws, law_data, law_rows
from twoclocks.report.phases import MOST_BARS, draw_phases, draw_verdicts
from twoclocks.report.phases import words as cell_words
from twoclocks.report.plot import plot
from twoclocks.report.twins import TwinsChapter
from twoclocks.runs.load import Run

MOST_LISTED = 12  # runs that were left out, crossed seeds, …: further ones are counted
MOST_BATCH_LAWS = 6


def listed(words: Sequence[str]) -> list[str]:
    """The first of these words, and how many more there are."""
    more = len(words) - MOST_LISTED
    return [*words] if more <= 0 else [*words[:MOST_LISTED], f"{more:,} more"]


class Said(Protocol):
    """What a figure shows, as a sentence."""

    @property
    def sentence(self) -> str: ...


def said(title: str, infos: Sequence[Said]) -> str:
    """The text alternative of a figure: its title, and the sentence of each panel."""
    return " ".join([title, *(info.sentence for info in infos)])


@dataclass(frozen=True)
class LawChapter:
    """Laws of runs of different sizes."""

    infos: list[LawInfo]
    refused: list[str]  # clocks without a law, each with the reason
    figure: str

    @property
    def left_out(self) -> list[str]:
        return listed(list(dict.fromkeys(f"{info.name}: {why}" for info in self.infos for why in info.laws.left_out)))

    def table(self, info: LawInfo) -> list[dict[str, str]]:
        return law_rows(info.laws)

    def seeds(self, info: LawInfo) -> list[str]:
        """How the variance splits over crossed seeds, in words."""
        return listed([f"{label}: {split}" for label, split in info.laws.seeds.items()])

    @property
    def most_points(self) -> int:
        """The most runs that a panel draws."""
        return MOST_POINTS


def law_chapter(runs: Sequence[Run]) -> LawChapter | None:
    infos, refused = law_data(runs)
    if not infos and not refused:
        return None
    return LawChapter(
        infos,
        refused,
        plot(draw_laws(infos), "laws", said("Clocks against training-set size.", infos)) if infos else "",
    )


@dataclass(frozen=True)
class CollapseChapter:
    """Memorization curves of runs of different sizes, on steps·batch/N."""

    infos: list[CollapseInfo]
    figure: str

    @property
    def most(self) -> int:
        """The most sets of runs that are shown."""
        return MOST_COLLAPSES


def collapse_chapter(runs: Sequence[Run]) -> CollapseChapter | None:
    infos = collapse_data(runs)
    return (
        CollapseChapter(
            infos, plot(draw_collapses(infos), "collapses", said("Copies over steps, and over steps·batch/N.", infos))
        )
        if infos
        else None
    )


@dataclass(frozen=True)
class PhaseChapter:
    """Phases of runs of different sizes."""

    info: PhaseDiagram
    figure: str
    verdicts: str  # a second figure, where the runs differ in more than their size

    @property
    def most_bars(self) -> int:
        return MOST_BARS

    @property
    def sentences(self) -> list[str]:
        """One sentence per run, where all of them are drawn."""
        return self.info.sentences() if len(self.info.runs) <= MOST_BARS else []

    @property
    def left_out(self) -> list[str]:
        return listed(self.info.left_out)


def phase_chapter(runs: Sequence[Run]) -> PhaseChapter | None:
    try:
        info = phase_diagram(runs)
    except UserError:  # no run was evaluated: the chapters of the runs say so
        return None
    if not info.several_sizes:
        return None
    words = listed(info.sentences())
    label = " ".join(["Phases of training against step and training-set size.", *words])
    verdicts = ""
    if len(info.groups) > 1:
        cells = listed([f"{cell.group}, N = {cell.n:,}: {cell_words(cell)}" for cell in info.cells()])
        verdicts = plot(draw_verdicts(info), "verdicts", "; ".join(["Whether the window is open", *cells]))
    return PhaseChapter(info, plot(draw_phases(info), "phases", label), verdicts)


@dataclass(frozen=True)
class BatchChapter:
    """Laws of runs that differ in their batch size only."""

    infos: list[BatchInfo]
    figure: str
    refused: list[str]  # sets of runs without a law, each with the reason

    @property
    def most(self) -> int:
        """The most laws that are shown."""
        return MOST_BATCH_LAWS


def batch_chapter(runs: Sequence[Run]) -> BatchChapter | None:
    found = list(islice(found_batch_laws(runs), MOST_BATCH_LAWS))
    infos = [batch_info(law) for law in found if isinstance(law, BatchLaw)]
    refused = [reason for reason in found if isinstance(reason, str)]
    figure = plot(draw_batches(infos), "batches", said("τ_mem against the batch.", infos)) if infos else ""
    return BatchChapter(infos, figure, refused) if found else None


@dataclass(frozen=True)
class Together:
    """The chapters about several runs together; None where there is nothing to show."""

    laws: LawChapter | None = None
    phases: PhaseChapter | None = None
    batches: BatchChapter | None = None
    twins: TwinsChapter | None = None
    collapses: CollapseChapter | None = None


def chapters_together(runs: Sequence[Run], twins: TwinsChapter | None = None) -> Together:
    """All chapters about these runs together."""
    return Together(law_chapter(runs), phase_chapter(runs), batch_chapter(runs), twins, collapse_chapter(runs))
