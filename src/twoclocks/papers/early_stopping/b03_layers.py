"""Claim B3: a deep grammar is learned layer by layer; its deepest rules come only as copies (P2 §4.3, Fig. 5a)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

from twoclocks.clocks.onset import Onset
from twoclocks.papers.as_printed import printed_clocks
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, all_of, not_run, verdict_of
from twoclocks.papers.early_stopping.grammar_runs import VALID, GrammarRun, grammar_runs
from twoclocks.papers.early_stopping.runs import DEEP, DEEP_SIZE
from twoclocks.papers.intervals import is_earlier
from twoclocks.papers.records import Records

LEARNED = 3  # layers that P2 sees before τ_mem
HALF = 0.5


@CLAIMS.register("B3")
class LayerByLayer(Claim):
    """The grammar (16, 3, 5, 2) with 1,024 strings: enough for three of its five layers."""

    id: ClassVar[str] = "B3"
    title: ClassVar[str] = "Layers are learned in order, the deepest only by copying"
    paper: ClassVar[str] = "(16, 3, 5, 2), P = 1,024: layers 1 to 3 before τ_mem, in order; 4 and 5 only by copying"
    criterion: ClassVar[str] = (
        "85% of the nodes of layers 1, 2 and 3 are valid in this order, each before τ_mem; those of layers 4 and 5 not "
        "before it; in a run that goes on to 50% copies"
    )
    figures: ClassVar[tuple[str, ...]] = ("p2-fig5",)
    grids: ClassVar[tuple[str, ...]] = ("rhm-deep",)

    def judge(self, records: Records) -> Judgement:
        chosen = records.where(data__n=records.scale.sizes((DEEP_SIZE,)))
        runs = [one for one in grammar_runs(chosen, DEEP) if layer_onsets(one)]
        if not runs:
            return not_run("the grammar (16, 3, 5, 2) with errors per layer")
        words, values = [], dict[str, Any]()
        for one in runs:
            layers = layer_onsets(one)
            named = ", ".join(f"layer {level} {onset}" for level, onset in enumerate(layers, start=1))
            words.append(f"{one.record.seed_words}: {named}; τ_mem {one.memory}, {one.copies.max():.0%} copies")
            values[one.record.seed_words] = {
                "layers": [onset.as_json() for onset in layers],
                "memory": one.memory.as_json(),
            }
        seeds = Records(one.record for one in runs).seeds
        answer = agreed(layer_by_layer(layer_onsets(one), one.memory, one.copies.max()) for one in runs)
        return Judgement(verdict_of(answer, seeds), "; ".join(words), seeds, values)


def layer_onsets(one: GrammarRun) -> list[Onset]:
    """When the nodes of each layer are valid, from the leaves up; empty where this was not measured."""
    return [*printed_clocks(one.record, VALID).parts.values()]


def layer_by_layer(layers: Sequence[Onset], memory: Onset, most_copies: float) -> Answer:
    """The criterion on one run."""
    first, deep = layers[:LEARNED], layers[LEARNED:]
    answers = [not_later(a, b) for a, b in pairwise(first)]
    answers += [is_earlier(one, memory) for one in first]
    answers += [is_earlier(memory, one) for one in deep]
    found = all_of(answers)
    return "undecided" if found == "yes" and most_copies < HALF else found


def not_later(one: Onset, other: Onset) -> Answer:
    """Whether an onset comes no later than another; the same interval will do."""
    if is_earlier(other, one) == "yes":
        return "no"
    return "yes" if one.seen and one.upper <= other.upper else "undecided"
