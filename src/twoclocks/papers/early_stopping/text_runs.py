"""The runs behind P2's claim on text: MD4 and a causal GPT on pieces of the King James Bible, over their number.

P2 trains MD4 with 165 million parameters on text8 (App. E). Here the networks have 10.7 million, and the text comes
with the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twoclocks.papers.as_printed import stable
from twoclocks.papers.early_stopping.image_runs import NaturalRun
from twoclocks.papers.early_stopping.runs import COUNTED
from twoclocks.papers.grids import grid
from twoclocks.papers.records import Records
from twoclocks.papers.scales import Scale
from twoclocks.sweeps.grid import Cell

MD4, GPT = "p2-md4-text", "gpt-text"
SIZES = (64, 128, 256, 512, 1024)
GAP = 0.25  # nats per character by which the held-out loss exceeds the training loss; other chapters alone cost some
# Steps per text, if copying does not begin before: more than ten times what text-small needed (four to five).
MOST_STEPS = {MD4: 96, GPT: 64}
# MD4 takes minutes of a GPU per run from here on. These runs end soon after their losses part, which is P2's clock on
# text (at about 22 steps per text with 512 of them, seen in two runs); copies come later than 100 steps per text.
LONG, LONG_STEPS, LONG_SEEDS, LONG_EVALUATIONS = 512, 26, 2, 16
# Steps per text at the first evaluation, when copying cannot have begun. With 64 texts MD4 has a quarter of copies
# after 63 steps per text (seen once), so 4 are early enough; evaluations before that took more time than training.
FIRST_STEPS = {MD4: 4.0, GPT: 0.25}
EVALUATIONS = {MD4: 28, GPT: 36}
EXAMPLE = 128  # texts of the runs whose samples are shown


def is_long(preset: str, n: int) -> bool:
    """Whether a run takes so long that it ends when the losses have parted."""
    return preset == MD4 and n >= LONG


def shared(preset: str, n: int) -> dict[str, Any]:
    """Length and evaluations of a run of n texts.

    MD4 calls the whole network at each level of its sampler: 512 samples and 256 prompts at 256 levels took 7 s on an
    H200. So fewer are drawn, fewer times, and of the raw weights alone, whose clocks the claim reads.
    """
    long = is_long(preset, n)
    return {
        "training.steps": 2048 + (LONG_STEPS if long else MOST_STEPS[preset]) * n,
        "training.average": 0,
        "evaluation.first": max(16, round(FIRST_STEPS[preset] * n)),
        "evaluation.evaluations": LONG_EVALUATIONS if long else EVALUATIONS[preset],
        "evaluation.samples": 256,
        "evaluation.prompts": 64,
        "evaluation.keep_weights": 0,
        **COUNTED,
    }


def cells(scale: Scale, preset: str) -> Iterator[Cell]:
    """Runs over the number of texts that end when copying has begun, at the latest; only their rows are kept."""
    ending: dict[str, Any] = {"evaluation.keep_samples": 0, "clocks.stop": "memory"}
    for n in reversed(scale.sizes(SIZES)):  # the longest runs first
        for seed in scale.seeds(LONG_SEEDS if is_long(preset, n) else 3):
            point = {"data.n": n, "data.seed": seed, "training.seed": seed}
            yield scale.cell(preset, point, {**shared(preset, n), **ending})


@grid("text-sizes", 13, "MD4 on text over the number of strings, until it copies")
def text_sizes(scale: Scale) -> Iterator[Cell]:
    yield from cells(scale, MD4)


@grid("text-sizes-gpt", 13, "a causal GPT on text over the number of strings, until it copies")
def text_sizes_gpt(scale: Scale) -> Iterator[Cell]:
    yield from cells(scale, GPT)


@grid("text-examples", 13, "MD4 and a causal GPT on 128 strings, far beyond τ_mem", views=("examples",))
def text_examples(scale: Scale) -> Iterator[Cell]:
    for preset in (GPT, MD4):
        for n in scale.sizes((EXAMPLE,)):
            point = {"data.n": n, "data.seed": 0, "training.seed": 0}
            yield scale.cell(preset, point, {**shared(preset, n), "evaluation.keep_samples": 64})


def text_runs(records: Records, preset: str) -> list[NaturalRun]:
    """The runs of a preset that change nothing but N and seeds, in order of N; none that diverged."""
    found = stable(records.baseline(preset))
    return sorted((NaturalRun(one, GAP) for one in found), key=lambda one: (one.n, one.record.seed))
