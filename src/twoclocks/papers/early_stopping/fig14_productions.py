"""P2 Fig. 14: how often, and how independently, an early-stopped model uses the production rules of a grammar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from twoclocks.dissection.views.productions import ProductionsInfo
from twoclocks.papers.drawing import styled
from twoclocks.papers.early_stopping.b05_productions import STEP, Effects, effects_of, production_runs
from twoclocks.papers.figure import FIGURES, MissingRunsError, PaperFigure
from twoclocks.papers.records import Record, Records
from twoclocks.papers.views import view_of
from twoclocks.report.drawings.productions import ProductionsDrawing


@dataclass(frozen=True)
class UseInfo:
    """The data of the figure: the productions of one run, and the effects of all."""

    shown: ProductionsInfo
    effects: dict[str, Effects]  # by seed


@FIGURES.register("p2-fig14")
class UseOfRules(PaperFigure[UseInfo]):
    """Mean use of every production rule, and deviations of the covariances of all pairs."""

    id: ClassVar[str] = "p2-fig14"
    title: ClassVar[str] = "Sampling of the production rules"
    shows: ClassVar[str] = (
        "mean occurrence (left) and centred covariance (right) of the production rules that a model uses, trained on "
        "16,384 strings of the grammar (16, 4, 3, 2) for 32,768 steps"
    )
    claims: ClassVar[tuple[str, ...]] = ("B5",)
    grids: ClassVar[tuple[str, ...]] = ("rhm-productions",)

    def data(self, records: Records) -> UseInfo:
        found = {one: info for one in production_runs(records) if (info := shown_of(one)) is not None}
        if not found:
            raise MissingRunsError("runs: there is none with its production rules counted; make the runs first")
        shown = next(iter(found.values()))
        effects = {one.seed_words: effect for one in found if (effect := effects_of(one)) is not None}
        return UseInfo(shown, effects)

    @styled
    def draw(self, info: UseInfo) -> Any:
        return ProductionsDrawing().draw(info.shown)

    def caption(self, info: UseInfo) -> str:
        said = "; ".join(f"{seed}: {one.words()}" for seed, one in info.effects.items())
        return (
            "Left: mean use of every production rule per string, one panel per layer, with what the grammar requires "
            "and the noise of as many true strings. Right: covariances of all pairs, as deviations from the exact ones "
            "in sampling noises. " + (f"{said}. " if said else "Too few valid strings to test. ") + "P2 reads: all "
            "rules are used uniformly, up to sampling noise, and independently."
        )


def shown_of(record: Record) -> ProductionsInfo | None:
    """The productions of a run, shown at P2's step."""
    found = view_of(record, "productions", step=STEP)
    return found if isinstance(found, ProductionsInfo) else None
