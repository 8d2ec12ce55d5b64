"""Generated samples from the same initial noise at a few steps, each marked by its state."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from twoclocks.data.encodings import layout
from twoclocks.evaluation.states import STATES, State, between_threshold, states_of
from twoclocks.report.image_strip import ImageStrip, ImageStrips
from twoclocks.report.text_strip import TextStrips, text_strips
from twoclocks.runs.load import Run
from twoclocks.store.checksums import DamagedError

MARKS: dict[State, tuple[str, str, str]] = {  # state: (mark, colour, words)
    "valid-new": ("✓", "new", "valid and new"),
    "memorized": ("●", "memory", "copy of a training sample"),
    "broken": ("✗", "broken", "breaks the rule"),
    "between": ("?", "muted", "an entry lies between symbols"),
}


log = logging.getLogger("twoclocks")


@dataclass(frozen=True)
class Tile:
    state: State
    cells: list[list[int]]  # rows of symbols


@dataclass(frozen=True)
class StepSamples:
    """The stored samples of one evaluation."""

    label: str
    step: int
    tiles: list[Tile]
    counts: dict[State, int]


@dataclass(frozen=True)
class StripInfo:
    symbols: int
    steps: list[StepSamples]  # of symbols
    images: list[ImageStrip] = field(default_factory=list)  # of real images, instead
    criterion: str = ""  # when an image is a copy
    texts: TextStrips | None = None  # of real texts, instead


def strip_data(run: Run, tiles: int = 16) -> StripInfo:
    """Samples of up to four evaluations: the first, the last before τ_rule, the middle of the window, the last."""
    settings = run.settings
    assert settings.encoding is not None
    if settings.rule.is_image:
        return image_strip_data(run, tiles)
    if settings.rule.is_text and not settings.rule.has_rule:
        return StripInfo(settings.rule.symbols, [], texts=text_strips(run))
    threshold = between_threshold(settings.evaluation.quantization, settings.encoding, settings.rule)
    found = []
    for step, label in chosen_steps(run).items():
        try:
            decoded, outcome = run.samples(step)
        except DamagedError as error:
            log.warning(f"{error}; the page is written without these samples")
            continue
        numbers = states_of(outcome, threshold).tolist()
        states = [STATES[number] for number in numbers]
        grids = decoded.symbols.reshape(len(decoded.symbols), *layout(run.settings.rule)).tolist()
        shown = [Tile(state, grid) for state, grid in zip(states, grids, strict=True)][:tiles]
        found.append(StepSamples(label, step, shown, dict(Counter(states))))
    return StripInfo(run.settings.rule.symbols, found)


def image_strip_data(run: Run, tiles: int) -> StripInfo:
    """Images of up to three evaluations, and those of the last one that are nearest to a training image."""
    strips, found = ImageStrips(run), []
    for step, label in chosen_steps(run).items():
        try:
            pixels = run.samples(step)[0].symbols
        except DamagedError as error:
            log.warning(f"{error}; the page is written without these samples")
            continue
        found.append(strips.strip(label, step, pixels, tiles))
        last = step, pixels
    if found:
        found.append(strips.nearest_first(*last, tiles))
    return StripInfo(run.settings.rule.symbols, [], found, strips.criterion)


def chosen_steps(run: Run) -> dict[int, str]:
    """The steps whose samples are shown, each with the reason."""
    stored = sorted(run.directory.artifact_steps("samples"))
    if not stored:
        return {}
    clocks = run.clocks()
    chosen = {stored[0]: "first evaluation"}
    if clocks.rule.status == "observed":
        chosen[int(clocks.rule.lower)] = "last before τ_rule"
    if clocks.window is not None:
        begin, end = clocks.window[0], min(clocks.window[1], stored[-1])
        middle = max(np.sqrt(begin * end), 1)  # a window may begin at step 0
        chosen[min(stored, key=lambda step: abs(np.log(max(step, 1) / middle)))] = "middle of the window"
    if not clocks.has_rule:
        early = clocks.memory.status == "observed"
        middle = clocks.memory.lower if early else np.sqrt(max(stored[0], 1) * stored[-1])
        near = min(stored, key=lambda step: abs(np.log(max(step, 1) / max(middle, 1))))
        chosen.setdefault(near, "last before τ_mem" if early else "middle of training")
    chosen[stored[-1]] = "last evaluation"
    return {step: chosen[step] for step in sorted(chosen) if step in stored}
