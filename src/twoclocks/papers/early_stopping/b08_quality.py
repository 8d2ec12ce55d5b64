"""Claim B8: the held-out loss turns up, and samples are best, when copying begins (P2 §3.1; App. D)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from twoclocks.clocks.onset import Onset
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, all_of, not_run
from twoclocks.papers.early_stopping.b07_images import seen_sizes
from twoclocks.papers.early_stopping.image_runs import ImageRun, image_runs
from twoclocks.papers.records import Records
from twoclocks.papers.seeds import fewest

FACTOR = 2.0  # within which two times are the same
FEWEST = 2  # sizes


@CLAIMS.register("B8")
class BestAtMemory(Claim):
    """When held-out loss and Fréchet distance are lowest, beside the clocks of the gap and of copies."""

    id: ClassVar[str] = "B8"
    title: ClassVar[str] = "The held-out loss turns up, and samples are best, at τ_mem"
    paper: ClassVar[str] = "images: the validation loss turns up at τ_mem, and FID is best there (here: digits)"
    criterion: ClassVar[str] = (
        "at two N or more, in every seed: the lowest held-out loss and the lowest Fréchet distance to held-out images "
        "lie within a factor of 2 of τ_mem, the onset of copies beyond chance; refuted where all seeds of one N say "
        "otherwise; undecided where one is lowest at the last evaluation, since it may fall on"
    )
    figures: ClassVar[tuple[str, ...]] = ("p2-fig1",)
    grids: ClassVar[tuple[str, ...]] = ("images-sizes",)

    def judge(self, records: Records) -> Judgement:
        sizes = seen_sizes(image_runs(records))
        if len(sizes) < FEWEST:
            return not_run("digits at two N or more to beyond τ_mem, with the Fréchet distance")
        words, answers, values = [], list[Answer](), {}
        for n, runs in sizes.items():
            answers.append(agreed(all_of(is_best_at_memory(one)) for one in runs))
            words.append(f"N = {n:,}: {'; '.join(map(times, runs))}")
            values[str(n)] = [
                {"tau_mem": one.memory.as_json(), "best_loss": one.best_loss, "best_quality": one.best_quality}
                for one in runs
            ]
        seeds = fewest(Records(one.record for one in same).seeds for same in sizes.values())
        return Judgement.of(all_of(answers), ". ".join(words), seeds, {"sizes": values})


def is_best_at_memory(one: ImageRun) -> Sequence[Answer]:
    """Whether the loss, and the quality, is best within a factor of 2 of τ_mem; at the end of a run nobody knows."""
    found = (one.best_loss, one.best_quality)
    return ["undecided" if step >= one.last_step else near(step, one.memory) for step in found]


def near(step: float, onset: Onset) -> Answer:
    """Whether a step lies within a factor of 2 of an onset, wherever in its interval that is.

    >>> [near(step, Onset(900, 1000, "observed")) for step in (700, 480, 100)]
    ['yes', 'undecided', 'no']
    """
    inside = [at / FACTOR <= step <= at * FACTOR for at in (max(onset.lower, 1.0), onset.upper)]
    return "yes" if all(inside) else "undecided" if any(inside) else "no"


def times(one: ImageRun) -> str:
    """The clocks and best times of one run."""
    gap = "" if one.gap is None else f"losses part {one.gap}, "
    return f"{gap}best loss {one.best_loss:,.0f}, best Fréchet {one.best_quality:,.0f}, copies {one.memory}"
