"""The drawing of P1 Figs. 17 to 19: the score field around a training sample, early, in the middle and late."""

from __future__ import annotations

from typing import Any, ClassVar

from twoclocks.core.arrays import Floats
from twoclocks.dissection.views.field import FieldInfo
from twoclocks.papers.drawing import styled
from twoclocks.papers.figure import PaperFigure
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.dissected import GRIDS, Phase, Seen, of_phase, seen
from twoclocks.report.drawings.field import draw_pull, draw_score, largest_score
from twoclocks.report.drawings.parts import figure_of

CHECKPOINTS = 3


class FieldFigure(PaperFigure[Seen[FieldInfo]]):
    """Two rows per checkpoint, norm of the score and pull towards a or b; one column per σ."""

    claims: ClassVar[tuple[str, ...]] = ("A15",)
    grids: ClassVar[tuple[str, ...]] = GRIDS
    phase: ClassVar[Phase]
    paper: ClassVar[str]  # what P1 sees

    def data(self, records: Records) -> Seen[FieldInfo]:
        found = seen(records, "field")
        first = found.first
        return Seen(found.n, found.views, of_phase(first.steps, first.clocks, self.phase, CHECKPOINTS))

    @styled
    def draw(self, info: Seen[FieldInfo]) -> Any:
        view = info.first
        figure = figure_of(1.75 * len(view.sigmas) + 0.6, 3.3 * len(info.chosen) + 0.3)
        axes = figure.subplots(2 * len(info.chosen), len(view.sigmas), squeeze=False)
        for row, at in enumerate(info.chosen):
            draw_checkpoint(axes[2 * row : 2 * row + 2], view, at)
        for axis, sigma in zip(axes[0], view.sigmas, strict=True):
            axis.set_title(f"σ = {sigma:.2g}", fontsize=9)
        return figure

    def caption(self, info: Seen[FieldInfo]) -> str:
        view, level = info.first, info.first.level
        said = "; ".join(
            f"step {view.steps[at]:,}: {share_words(view.learned.shares[at, level])}" for at in info.chosen
        )
        ideal = "; ".join(f"{name}: {share_words(view.ideal.shares[k, level])}" for k, name in enumerate(view.oracles))
        return (
            "The learned score on the plane through a training sample (a, white), a valid unseen one that differs in "
            f"{view.hamming} entries (b, cyan), and two between them that break the rule (c, d). For each checkpoint, "
            "above: norm of the score (dark: small) and its direction; below: whether a point denoises towards a "
            f"(blue), b (red), or c and d (white) ({info.words}). Fraction of the square "
            f"between the corners that denoises to each at σ = {view.sigmas[level]:.2g}: {said}. Ideal denoisers: "
            f"{ideal}. P1: {self.paper}."
        )


def draw_checkpoint(axes: Any, info: FieldInfo, at: int) -> None:
    """Score (above) and pull (below) of one checkpoint at every σ."""
    for level in range(len(info.sigmas)):
        score, arrows = info.learned.score[at, level], info.learned.arrows[at, level]
        draw_score(axes[0, level], info, score, arrows, largest_score(info, level))
        draw_pull(axes[1, level], info, info.learned.pull[at, level])
    axes[0, 0].set_ylabel(f"step {info.steps[at]:,}\nscore", fontsize=8.5)
    axes[1, 0].set_ylabel("pull to a or b", fontsize=8.5)


def share_words(shares: Floats) -> str:
    """Such as ``25% a, 25% b, 50% c and d``."""
    elsewhere = f", {shares[4]:.0%} elsewhere" if shares[4] > 0.005 else ""
    return f"{shares[0]:.0%} a, {shares[1]:.0%} b, {shares[2] + shares[3]:.0%} c and d{elsewhere}"
