"""Generated texts beside the training texts with which they share the longest run, with the common runs marked."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import torch

from twoclocks.core.suffix_array import Tokens
from twoclocks.evaluation.verbatim import common_runs
from twoclocks.rules.base import Rule
from twoclocks.runs.load import Run
from twoclocks.store.checksums import DamagedError

SHOWN = 8  # texts of each step
LEAST_MARKED = 4  # a run is marked from this share of a copy's run on: 1/4

log = logging.getLogger("twoclocks")
Piece = tuple[str, bool]  # characters, and whether they are a run that both texts have


@dataclass(frozen=True)
class TextPair:
    """A sample and the training text with which it shares the longest run."""

    sample: list[Piece]
    original: list[Piece]
    longest: int  # tokens of the longest common run
    copied: bool


@dataclass(frozen=True)
class TextStrip:
    """The stored texts of one evaluation: as many as are shown, and how many of all are copies."""

    label: str
    step: int
    pairs: list[TextPair]
    copies: int
    samples: int


@dataclass(frozen=True)
class TextStrips:
    steps: list[TextStrip]
    length: int  # tokens per text
    copy_run: int  # tokens in a row that make a copy
    least: int  # tokens of the shortest run that is marked


def text_strips(run: Run, shown: int = SHOWN) -> TextStrips:
    """Texts of the last step before copying begins, and of the last step, from the same initial noises."""
    settings = run.settings
    length = settings.rule.shape[0]
    copy_run = min(settings.evaluation.copy_run, length)
    least = max(2, copy_run // LEAST_MARKED)
    found = []
    for step, label in text_steps(run).items():
        try:
            decoded, outcome = run.samples(step)
        except DamagedError as error:
            log.warning(f"{error}; the page is written without these samples")
            continue
        rows = list(decoded.symbols[:shown].numpy())
        pairs = text_pairs(run, rows, outcome.copied[:shown].tolist(), least)
        found.append(TextStrip(label, step, pairs, int(outcome.copied.sum()), len(outcome.copied)))
    return TextStrips(found, length, copy_run, least)


def text_steps(run: Run) -> dict[int, str]:
    """The steps whose texts are shown, each with the reason."""
    stored = sorted(run.directory.artifact_steps("samples"))
    if not stored:
        return {}
    clocks, chosen = run.clocks(), {}
    before = [step for step in stored if step <= clocks.copy_free_until]
    if before and (clocks.memory.seen or clocks.suspected is not None):
        chosen[before[-1]] = "last before τ_mem" if clocks.memory.seen else "last before copying is suspected"
    return {**chosen, stored[-1]: "last evaluation"}


def text_pairs(run: Run, rows: list[Tokens], copied: list[bool], least: int) -> list[TextPair]:
    """Each text beside the one with the longest common run."""
    copies, rule = run.evaluator.reference.run_copies, run.settings.rule
    runs = copies.index.longest_runs(rows)
    pairs = []
    for row, text, longest, is_copy in zip(rows, runs.texts, runs.lengths, copied, strict=True):
        original = copies.texts[int(text)].cpu().numpy() if text >= 0 else np.zeros(0, dtype=np.int64)
        shared = common_runs(row, original, max(1, min(least, int(longest))))
        sample = pieces(rule, row, [(start, size) for start, _, size in shared])
        pairs.append(
            TextPair(sample, pieces(rule, original, [(at, size) for _, at, size in shared]), int(longest), is_copy)
        )
    return pairs


def pieces(rule: Rule, tokens: Tokens, runs: list[tuple[int, int]]) -> list[Piece]:
    """A text in pieces; those of ``runs`` (start and length, in order) are marked."""
    ends = [end for start, size in runs for end in (start, start + size)]
    parts = np.split(tokens, ends)
    texts = [rule.as_text(torch.from_numpy(part.astype(np.int64))[None])[0] if len(part) else "" for part in parts]
    return [(text, bool(number % 2)) for number, text in enumerate(texts) if text]
