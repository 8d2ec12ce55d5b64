"""The latest samples of a run as plain values: grids of symbols, pictures or texts, copies with their originals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twoclocks.core.text import visible
from twoclocks.core.theme import as_css, symbol_colours

if TYPE_CHECKING:  # they import torch, which takes longer than all else
    from torch import Tensor

    from twoclocks.runs.load import Run

MOST = 16  # samples that are shown
MOST_LETTERS = 600  # of a text

Samples = dict[str, Any]


def no_samples(reason: str) -> Samples:
    return {"kind": "none", "reason": visible(reason)}


def latest_samples(run: Run, step: int, checksum: str) -> Samples:
    """The samples stored at one evaluation; ``checksum`` is that of their row. UserError where they are damaged."""
    from twoclocks.data.encodings import Decoded

    stored = run.directory.artifacts["samples"].read(step, checksum)
    decoded = Decoded(stored["symbols"].long(), stored["distance"])
    if run.settings.rule.is_image:
        return pictures(run, step, decoded.symbols)
    outcome = run.evaluator.judge(decoded)
    found = texts if run.settings.rule.is_text else grids
    return found(run, step, decoded.symbols, outcome)


def pictures(run: Run, step: int, pixels: Tensor) -> Samples:
    """Images, each with its nearest training image."""
    from twoclocks.report.image_strip import ImageStrips

    strips = ImageStrips(run)
    strip = strips.strip("", step, pixels, MOST)
    tiles = [
        {
            "mark": f"{tile.ratio:.2f}",
            "colour": "memory" if tile.copied else "muted",
            "words": "copy" if tile.copied else "not a copy",
            "sample": tile.sample,
            "original": tile.original,
        }
        for tile in strip.tiles
    ]
    note = (
        "Below each sample: its nearest training image, and the ratio d₁/d₂ of the distances to the nearest and the "
        f"second nearest one. A sample is a copy where {strips.criterion}."
    )
    return {"kind": "image", "step": step, "tiles": tiles, "counts": counted(strip.copies, strip.samples), "note": note}


def counted(copies: int, samples: int) -> str:
    return f"{copies} of {samples} stored samples are copies"


def nearest_row(row: Tensor, train: Tensor) -> tuple[Tensor, int]:
    """The training row that differs from a row in the fewest entries, and in how many."""
    different = (train.flatten(1) != row.flatten()).sum(dim=1)
    index = int(different.argmin())
    return train[index], int(different[index])


def texts(run: Run, step: int, rows: Tensor, outcome: Any) -> Samples:
    """Texts; a copy with its nearest training text, and the longest run that both share marked."""
    from twoclocks.dissection.views.examples import texts_of

    rule, tiles = run.settings.rule, []
    for row, copied in zip(rows[:MOST], outcome.copied[:MOST].tolist(), strict=True):
        if copied:
            near, _ = nearest_row(row, run.evaluator.train)
            both = row.numpy()[None], near.numpy()[None]
            pair: Sequence[str | None] = [next(texts_of(rule, *both)), next(texts_of(rule, *both[::-1]))]
        else:
            pair = [rule.as_text(row[None])[0], None]
        sample, original = (None if text is None else visible(text[:MOST_LETTERS], keep="\n") for text in pair)
        colour, words = ("memory", "copy") if copied else ("muted", "not a copy")
        tiles.append({"mark": words, "colour": colour, "words": words, "sample": sample, "original": original})
    counts = counted(int(outcome.copied.sum()), len(outcome.copied))
    note = "Below a copy: its nearest training text. [[ and ]] mark the longest run of tokens that both share."
    return {"kind": "text", "step": step, "tiles": tiles, "counts": counts, "note": note}


def grids(run: Run, step: int, rows: Tensor, outcome: Any) -> Samples:
    """Symbols as grids; a copy with the training sample that it equals."""
    from twoclocks.data.encodings import layout
    from twoclocks.evaluation.states import STATES, between_threshold, states_of
    from twoclocks.report.strip import MARKS

    settings = run.settings
    assert settings.encoding is not None
    threshold = between_threshold(settings.evaluation.quantization, settings.encoding, settings.rule)
    states = [STATES[number] for number in states_of(outcome, threshold).tolist()]
    tiles = []
    for row, state in zip(rows[:MOST], states, strict=False):
        mark, colour, words = MARKS[state]
        near = nearest_row(row, run.evaluator.train)[0] if state == "memorized" else None
        sample, original = (None if one is None else one.reshape(layout(settings.rule)).tolist() for one in (row, near))
        tiles.append({"mark": mark, "colour": colour, "words": words, "sample": sample, "original": original})
    counts = ", ".join(f"{MARKS[state][0]} {MARKS[state][2]}: {number}" for state, number in Counter(states).items())
    colours = [as_css(colour) for colour in symbol_colours(settings.rule.symbols)]
    note = "Below a copy: the training sample that it equals."
    return {
        "kind": "grid",
        "step": step,
        "tiles": tiles,
        "counts": f"of {len(states)} stored samples: {counts}",
        "note": note,
        "colours": colours,
    }
