"""Copies given a prefix: prompted with the beginning of a training piece, the model continues it verbatim."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from twoclocks.core.errors import SettingError, UserError
from twoclocks.monitor.criteria.base import CRITERIA, Control, Criterion, Matches
from twoclocks.monitor.extraction import Prompts, Tokens, as_pieces
from twoclocks.monitor.inputs import Shown, called, checked_integer
from twoclocks.monitor.training_set import Kind, TrainingSet

log = logging.getLogger("twoclocks")


@CRITERIA.register("extractable")
@dataclass(frozen=True)
class Extractable(Criterion):
    """A copy begins with the first ``prefix`` tokens of a training piece and continues with its next ``tokens`` tokens.

    Samples are rows as ``tc.monitor.continue_pieces`` returns them: the prefix of a piece, then what the model wrote.
    At each look, prompt with training pieces and with held-out pieces. The held-out pieces of ``Monitor(held_out=…)``
    that are continued verbatim are the chance level of that look, and copying means ``memory_threshold`` above it.
    ``tokens=None`` asks for all of the rest. ``decode`` turns token ids into a string, for the gallery.
    """

    prefix: int = 32
    tokens: int | None = 50
    decode: Callable[[list[int]], str] | None = None
    controls: Tokens | None = field(default=None, repr=False, compare=False)  # held-out pieces, set by the monitor
    kinds: ClassVar[frozenset[Kind]] = frozenset({"integers"})
    about: ClassVar[str] = "it continues the first `prefix` tokens of a training piece with its next `tokens` tokens"
    data: ClassVar[str] = "text: token ids, prompted with training pieces"

    @property
    def name(self) -> str:
        rest = "all tokens" if self.tokens is None else f"{self.tokens} tokens"
        return f"copies by {rest} that continue a prefix of {self.prefix}"

    @property
    def measures_chance(self) -> bool:
        return self.controls is not None

    def __post_init__(self) -> None:
        checked_integer("prefix", self.prefix, 1)
        if self.tokens is not None:
            checked_integer("tokens", self.tokens, 1)
        if self.decode is not None and not callable(self.decode):
            fix = "use a function from a list of token ids to a string, such as tokenizer.decode"
            raise SettingError("decode", Shown(self.decode), fix)

    def calibrated(self, train: TrainingSet, held_out: Any | None) -> tuple[Extractable, Any | None]:
        """The criterion with the held-out pieces, all of which it needs as prompts."""
        self.check_kind(train)
        return (self, None) if held_out is None else (replace(self, controls=as_pieces(held_out, "held_out")), None)

    def matcher(self, train: TrainingSet) -> ExtractableMatcher:
        self.check_kind(train)
        return ExtractableMatcher(self, train)

    def shown(self, row: Any) -> Any:
        """A row as text: decoded, or its token ids."""
        tokens = np.asarray(row).tolist()
        return tuple(tokens) if self.decode is None else str(called(self.decode, "decode", tokens))


class ExtractableMatcher:
    """Compares rows with the pieces that begin with the same prefix."""

    def __init__(self, criterion: Extractable, train: TrainingSet) -> None:
        self.number, self.controls = len(train), criterion.controls
        pieces = np.concatenate([as_pieces(form, "train") for form in train.forms()])
        self.prompts = Prompts(pieces, self.controls, criterion.prefix, criterion.tokens)
        if self.controls is not None:
            shared = int((self.prompts.outcomes(self.controls).train >= 0).sum())
            if shared == len(self.controls):
                why = f"every piece begins with the first {criterion.prefix} tokens of a training piece"
                raise UserError(f"held_out: {why}; give pieces of other documents, or a longer prefix")
            if shared:
                what = f"{shared} of {len(self.controls)} pieces begin like a training piece"
                log.warning(
                    f"held_out: {what}; prompts with such a prefix are counted neither as training nor held-out"
                )

    def __call__(self, samples: Any, device: str = "cpu") -> Matches:
        """Matches of rows (n, length); the distance is the number of the tokens that were not continued verbatim."""
        found = self.prompts.outcomes(as_pieces(samples, "samples"))
        ours, theirs = found.train >= 0, found.held_out >= 0
        self.check_prompts(ours, theirs)
        counted = ours & ~theirs
        copied = counted & (found.train == self.prompts.tokens)
        distances = np.where(counted, self.prompts.tokens - found.train, np.inf)
        rows = np.where(counted, found.rows % self.number, -1)  # forms by declared symmetries lie behind the rows
        if self.controls is None:
            return Matches(copied, rows, distances)
        alone = theirs & ~ours
        guessed = alone & (found.held_out == self.prompts.tokens)
        return Matches(copied, rows, distances, counted, Control(int(guessed.sum()), int(alone.sum())))

    def check_prompts(self, ours: Any, theirs: Any) -> None:
        """Raise UserError where a row was not prompted from a piece, or one of the two sets has no prompts."""
        k, fix = self.prompts.prefix, "return prefix and continuation, as tc.monitor.continue_pieces does"
        if not (ours | theirs).all():
            row = int(np.flatnonzero(~(ours | theirs))[0])
            raise UserError(f"samples: row {row} does not begin with the first {k} tokens of a piece; {fix}")
        if not (ours & ~theirs).any():
            raise UserError(
                "samples: no row was prompted with a training piece; prompt with training and held-out pieces"
            )
        if self.controls is not None and not (theirs & ~ours).any():
            raise UserError(
                "samples: no row was prompted with a held-out piece; prompt with training and held-out pieces"
            )
