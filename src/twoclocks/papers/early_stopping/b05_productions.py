"""Claim B5: an early-stopped model uses the grammar's rules uniformly and independently (P2 App. F, Fig. 14)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twoclocks.dissection.views.productions import ProductionsInfo
from twoclocks.papers.as_printed import stable
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, all_of, not_run, verdict_of
from twoclocks.papers.early_stopping.grammar_runs import VARIED
from twoclocks.papers.early_stopping.runs import RHM, WIDTH
from twoclocks.papers.records import Record, Records
from twoclocks.papers.views import view_of

STEP, SIZE = 32_768, 16_384
EXCESS, NOISES, NEAR = 0.1, 1.5, 1.5


@dataclass(frozen=True)
class Effects:
    """How far the use of productions is from that of true samples: sizes of effects, not p-values."""

    step: int
    strings: int
    excess: float  # root mean square of used/expected − 1, without what sampling noise adds
    true_excess: float  # sampling noise alone: the same of as many true strings
    covariance: float  # root mean square of covariances' deviations, in sampling noises
    true_covariance: float  # of true samples

    def answers(self) -> list[Answer]:
        if self.true_excess >= EXCESS:  # too few strings: noise hides what is asked for
            return ["undecided"]
        near: Answer = "yes" if self.excess < EXCESS else "no"
        return [near, "yes" if self.covariance < NOISES * self.true_covariance else "no"]

    def words(self) -> str:
        return (
            f"{self.strings:,} valid strings at step {self.step:,}: use of rules off by {self.excess:.1%} (sampling "
            f"noise {self.true_excess:.1%}), covariances {self.covariance:.2f} noises (true samples "
            f"{self.true_covariance:.2f})"
        )


@CLAIMS.register("B5")
class RulesUniformAndIndependent(Claim):
    """The grammar (16, 4, 3, 2) with 16,384 strings, at P2's step."""

    id: ClassVar[str] = "B5"
    title: ClassVar[str] = "Generated strings use the rules uniformly and independently"
    paper: ClassVar[str] = "P = 16,384, step 32,768: rules are used uniformly, up to sampling noise, and independently"
    criterion: ClassVar[str] = (
        "at step 32,768, of 16,384 samples: the use of rules is off by less than 10% (root mean square, without "
        "sampling noise), and covariances deviate by less than 1.5 times what those of true samples do; undecided "
        "where sampling noise alone is 10% or the step is another; the last step is reported beside it"
    )
    figures: ClassVar[tuple[str, ...]] = ("p2-fig14",)
    grids: ClassVar[tuple[str, ...]] = ("rhm-productions",)

    def judge(self, records: Records) -> Judgement:
        found = {one: effects for one in production_runs(records) if (effects := effects_of(one)) is not None}
        if not found:
            return not_run("the grammar (16, 4, 3, 2) with 16,384 strings to step 32,768, with its productions counted")
        later = {one: effects for one in found if (effects := effects_of(one, math.inf)) is not None}
        words = "; ".join(f"{one.seed_words}: {effects.words()}" for one, effects in found.items())
        longer = {one: effects for one, effects in later.items() if effects.step > NEAR * found[one].step}
        if longer:
            said = "; ".join(f"{one.seed_words}: {effects.words()}" for one, effects in longer.items())
            words += f". Reported, not judged, at the last step: {said}"
        values: dict[str, Any] = {one.seed_words: vars(effects) for one, effects in found.items()}
        values["last"] = {one.seed_words: vars(effects) for one, effects in later.items()}
        seeds = Records(found).seeds
        answer = agreed(all_of(effects.answers()) for effects in found.values())
        there = all(STEP / NEAR <= effects.step <= STEP * NEAR for effects in found.values())
        if not there and not records.scale.networks:  # small scales have steps of their own
            answer = "undecided"
        return Judgement(verdict_of(answer, seeds), words, seeds, values)


def production_runs(records: Records) -> Records:
    """The runs with as many strings as P2's."""
    width = records.scale.width or WIDTH
    return stable(records.baseline(RHM, VARIED, data__n=records.scale.sizes((SIZE,)), model__width=width))


def effects_of(record: Record, step: float | None = None) -> Effects | None:
    """The effects at the evaluation that is nearest to a step, P2's by default; None where they were not measured."""
    info = view_of(record, "productions")
    if not isinstance(info, ProductionsInfo):
        return None
    wanted, last = STEP if step is None else step, len(info.steps) - 1
    at = last if math.isinf(wanted) else int(np.abs(np.log(np.maximum(info.steps, 1) / wanted)).argmin())
    fit = info.fits[at]
    if not fit.tested:
        return None
    used, expected = info.usage[at], info.truth.mean
    noise = np.diag(info.truth.covariance) / fit.number  # variance of the mean use of true strings
    possible = expected > 0
    squares = np.square(used[possible] / expected[possible] - 1).mean()
    by_chance = (noise[possible] / np.square(expected[possible])).mean()
    return Effects(
        step=int(info.steps[at]),
        strings=fit.number,
        excess=math.sqrt(max(0.0, squares - by_chance)),
        true_excess=math.sqrt(by_chance),
        covariance=fit.pairs[0],
        true_covariance=float(np.mean(fit.reference[0])),
    )
