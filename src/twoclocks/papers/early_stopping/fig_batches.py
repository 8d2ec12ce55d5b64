"""A figure that neither paper has: τ_mem against the batch, beside the slopes of samples seen and of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from twoclocks.papers.drawing import explain, new_figure
from twoclocks.papers.early_stopping.a08_batches import missing_batches
from twoclocks.papers.early_stopping.batch_runs import DIT_PAIRS, GPT_TRIPLES, GRAMMAR, BatchSweep
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Records
from twoclocks.report.batches import BatchInfo, batch_info, draw_panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEEPS = (GRAMMAR, DIT_PAIRS, GPT_TRIPLES)


@dataclass(frozen=True)
class Panel:
    """One model: its law, or why there is none."""

    title: str
    law: BatchInfo | None
    words: str


@FIGURES.register("batches")
class Batches(PaperFigure[tuple[Panel, ...]]):
    """One panel per model."""

    id: ClassVar[str] = "batches"
    title: ClassVar[str] = "τ_mem against the batch"
    shows: ClassVar[str] = (
        "no figure of the papers: P1 draws τ_mem on steps·batch/N at one batch, P2 (Fig. 18) shows that the batch does "
        "not matter for one hidden layer at fixed σ; here the batch changes and N does not"
    )
    claims: ClassVar[tuple[str, ...]] = ("A8", "B6")
    grids: ClassVar[tuple[str, ...]] = ("batches-rhm", "batches-dit", "batches-gpt")

    def data(self, records: Records) -> tuple[Panel, ...]:
        found = [sweep.runs(records) for sweep in SWEEPS]
        if not any(found):
            raise MissingRunsError("runs: there is none of a sweep over batches; make the runs first")
        return tuple(map(panel_of, SWEEPS, found))

    def draw(self, info: tuple[Panel, ...]) -> Figure:
        with new_figure(3.7 * len(info), 4.1) as figure:
            for axis, panel in zip(figure.subplots(1, len(info), squeeze=False)[0], info, strict=True):
                if panel.law is None:
                    explain(axis, f"{panel.title}: {panel.words}")
                else:
                    draw_panel(axis, panel.law)
            return figure

    def caption(self, info: tuple[Panel, ...]) -> str:
        said = " ".join(f"{panel.title}: {panel.words}." for panel in info)
        return (
            f"τ_mem (copies above chance + 0.1) against the batch at fixed N and learning rate. {said} Only runs with "
            "N ≥ batch that learned the rule before τ_mem are compared. Dotted: τ_mem ∝ 1/batch, samples seen; dashed: "
            "the same number of steps at every batch."
        )


def panel_of(sweep: BatchSweep, runs: Records) -> Panel:
    title, law = sweep.title(runs.scale), sweep.law(runs)
    missing = ", ".join(f"{one:,}" for one in missing_batches(sweep, runs))
    without = f"; missing: batch {missing}" if missing else ""
    if isinstance(law, str):
        return Panel(title, None, f"no power of the batch{without}" if missing else law)
    seeds = f"; seeds per batch: {sweep.seeds(runs).words or 1}"
    return Panel(title, batch_info(law, title), f"{law.sentence()}{seeds}{without}")
